package sim

import (
	"sync"
	"time"
)

// A parcel of a stream with a weight takes portionTime on the link at most, and at most
// windowPortions of them are on their way at once. So streams take turns on a link.
const (
	portionTime     = 500 * time.Millisecond
	windowPortions  = 4
	minPortion      = 256      // bytes
	maxPortion      = 64 << 10 // bytes
	maxUnreadParcel = 1 << 20  // bytes of a stream without a weight that wait to be read
)

// link is a host's connection to all others.
type link struct {
	rate int // bits a second, each way
	mu   struct {
		sync.Mutex
		up, down lane
	}
}

// lane is one direction of a link. It says until when the link is taken by all bytes that were
// sent, and by those without a weight, which overtake the others.
type lane struct{ heavy, light time.Time }

// portion returns how many bytes a parcel has at most, and how many bytes may be on their way.
func (l *link) portion(weight int) (size, window int) {
	if weight == 0 {
		return maxPortion, maxUnreadParcel
	}
	size = int(portionTime.Seconds() * float64(l.rate) / 8 / float64(weight))
	size = max(minPortion, min(size, maxPortion))
	return size, windowPortions * size
}

// send returns when bytes that are sent now have left.
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

// receive returns when bytes have arrived, if the last of them reaches the link at a given time.
// For bytes with a weight that time must be now. Bytes without a weight do not wait, so their time
// may lie ahead.
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

// takes returns for how long a number of bytes take up a link.
func (l *link) takes(n, weight int) time.Duration {
	return time.Duration(float64(n) * float64(max(weight, 1)) * 8 / float64(l.rate) * float64(time.Second))
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// earlier returns the earlier of two times; zero stands for never.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// signal wakes all goroutines that wait now, and the next one.
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
