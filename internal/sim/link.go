package sim

import (
	"sync"
	"time"
)

const (
	maxParcel = 64 << 10 // bytes
	maxUnread = 1 << 20  // bytes of a stream that wait to be read
)

// link is what a host sends over.
type link struct {
	rate int // bits a second
	mu   struct {
		sync.Mutex
		taken time.Time // until then
	}
}

// send returns when bytes that are sent now have left.
func (l *link) send(now time.Time, n int) time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	lasts := time.Duration(float64(n) * 8 / float64(l.rate) * float64(time.Second))
	l.mu.taken = later(now, l.mu.taken).Add(lasts)
	return l.mu.taken
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
