package sim

import (
	"sync"
	"time"
)

// Parcels of a stream with a weight take portionTime on the link at most, windowPortions of them are on their way at once: so streams share
// a link by turns.
const (
	portionTime     = 500 * time.Millisecond
	windowPortions  = 4
	minPortion      = 256      // bytes
	maxPortion      = 64 << 10 // bytes
	maxUnreadParcel = 1 << 20  // bytes of a stream without a weight that wait to be read
)

// link is how a host is connected to all others.
type link struct {
	rate int // bits a second, each way
	mu   struct {
		sync.Mutex
		up, down lane
	}
}

// lane is one direction: until when it is taken by all that was sent, and by what has no weight, which overtakes what has.
type lane struct{ heavy, light time.Time }

// portion is of how many bytes a parcel is at most, and how many may be on their way.
func (l *link) portion(weight int) (size, window int) {
	if weight == 0 {
		return maxPortion, maxUnreadParcel
	}
	size = int(portionTime.Seconds() * float64(l.rate) / 8 / float64(weight))
	size = max(minPortion, min(size, maxPortion))
	return size, windowPortions * size
}

// send is when bytes that are sent now have left.
func (l *link) send(now time.Time, n, weight int) time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	lasts := l.takes(n, weight)
	l.mu.up.heavy = later(now, l.mu.up.heavy).Add(lasts)
	if weight > 0 {
		return l.mu.up.heavy
	}
	l.mu.up.light = later(now, l.mu.up.light).Add(lasts)
	return l.mu.up.light
}

// receive is when bytes have come whose last one reaches the link at a time: now, if they have a weight. What has none may be said ahead;
// it does not wait.
func (l *link) receive(now, at time.Time, n, weight int) time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	lasts := l.takes(n, weight)
	if weight > 0 {
		l.mu.down.heavy = later(at.Add(-lasts), l.mu.down.heavy).Add(lasts)
		return l.mu.down.heavy
	}
	l.mu.down.heavy = later(now, l.mu.down.heavy).Add(lasts)
	return at
}

// takes is for how long so many bytes take up a link.
func (l *link) takes(n, weight int) time.Duration {
	return time.Duration(float64(n) * float64(max(weight, 1)) * 8 / float64(l.rate) * float64(time.Second))
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// earlier is the earlier of two times, of which zero is never.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// signal wakes whoever waits, now or next.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// pause waits for a signal, the end or a time; zero is never.
func pause(wake, done <-chan struct{}, until time.Time) {
	if until.IsZero() {
		select {
		case <-wake:
		case <-done:
		}
		return
	}
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	select {
	case <-wake:
	case <-done:
	case <-timer.C:
	}
}
