package peers

import (
	"context"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"
)

// Group is the goroutines of a Network. They end with one context, and its end waits for all of
// them. Its methods may be called from any goroutine.
type Group struct {
	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup // everything that Wait waits for
	mu     struct {
		sync.Mutex
		stopped bool
		after   []func() // what Wait calls
	}
}

// NewGroup makes a Group. The caller stops it and waits for it. Its goroutines are also to end with
// ctx.
func NewGroup(ctx context.Context) *Group {
	g := &Group{}
	g.ctx, g.cancel = context.WithCancel(ctx)
	return g
}

// Context ends when Stop is called, or the context that the group was made with ends.
func (g *Group) Context() context.Context { return g.ctx }

// Go runs f in a goroutine, or says no when the group has stopped. f ends when Context does.
func (g *Group) Go(f func()) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.mu.stopped {
		return false
	}
	g.wg.Go(f)
	return true
}

// Enter has Wait wait for the calling goroutine, until Leave; or says no when the group has
// stopped.
func (g *Group) Enter() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.mu.stopped {
		return false
	}
	g.wg.Add(1)
	return true
}

// Leave undoes Enter.
func (g *Group) Leave() { g.wg.Done() }

// Join makes a context that ends with ctx or with the group.
func (g *Group) Join(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(g.ctx, cancel)
	return ctx, func() { stop(); cancel() }
}

// Err turns err into one that unwraps to net.ErrClosed if the group has stopped.
func (g *Group) Err(err error) error {
	if g.ctx.Err() != nil {
		return fmt.Errorf("p2p network: %w", net.ErrClosed)
	}
	return err
}

// Stop ends Context and starts nothing more. It says whether this was the first call.
func (g *Group) Stop() (first bool) {
	g.mu.Lock()
	first = !g.mu.stopped
	g.mu.stopped = true
	g.mu.Unlock()
	g.cancel()
	return first
}

// After has Wait call f when all goroutines of the group have ended; what was given last is called
// first.
func (g *Group) After(f func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.mu.after = append(g.mu.after, f)
}

// Wait returns when all goroutines of the group have ended, and what After was given is done.
func (g *Group) Wait() {
	g.wg.Wait()
	for _, f := range slices.Backward(g.mu.after) {
		f()
	}
}

// Every calls f at an interval until the group stops.
func (g *Group) Every(interval time.Duration, f func(now time.Time)) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-g.ctx.Done():
			return
		case <-tick.C:
			f(time.Now())
		}
	}
}

// Sleep returns after a time, or when the group stops.
func (g *Group) Sleep(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-g.ctx.Done():
	case <-timer.C:
	}
}

// Signal wakes a loop that receives from it. Raised again before that, it wakes it once.
type Signal chan struct{}

// NewSignal makes a signal that is not raised.
func NewSignal() Signal { return make(Signal, 1) }

// Raise does not wait.
func (s Signal) Raise() {
	select {
	case s <- struct{}{}:
	default:
	}
}
