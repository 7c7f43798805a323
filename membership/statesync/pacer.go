package statesync

import (
	"context"
	"sync"
	"time"
)

// pacer spreads bytes over time.
type pacer struct {
	rate int64 // bytes a second; 0 means no limit
	mu   struct {
		sync.Mutex
		free time.Time // when the next byte may go
	}
}

// slice is the number of bytes to send at once: little at low rates, so that many streams take turns within a second.
func (p *pacer) slice() int {
	const least, most, turns = 4 << 10, 256 << 10, 64
	if p.rate <= 0 {
		return most
	}
	return int(min(max(p.rate/turns, least), most))
}

// wait returns when n bytes may go, or with ctx's error.
func (p *pacer) wait(ctx context.Context, n int) error {
	if p.rate <= 0 {
		return nil
	}
	p.mu.Lock()
	now := time.Now()
	at := p.mu.free
	if at.Before(now) {
		at = now
	}
	p.mu.free = at.Add(time.Duration(float64(n) / float64(p.rate) * float64(time.Second)))
	p.mu.Unlock()
	t := time.NewTimer(at.Sub(now))
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
