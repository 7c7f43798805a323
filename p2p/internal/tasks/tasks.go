// Package tasks owns the goroutines of a Network: they end with one context, and its end waits for
// all of them.
package tasks

import (
	"context"
	"fmt"
	"net"
	"sync"
)

// Group is a set of goroutines with a common end. Its methods may be called from any goroutine.
type Group struct {
	ctx    context.Context // ends when Stop is called
	cancel context.CancelFunc
	wg     sync.WaitGroup // everything that Wait waits for
	mu     struct {
		sync.Mutex
		stopped bool
	}
}

// NewGroup makes a Group. The caller stops it and waits for it.
func NewGroup() *Group {
	g := &Group{}
	g.ctx, g.cancel = context.WithCancel(context.Background())
	return g
}

// Context ends when Stop is called.
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

// Wait returns when all goroutines of the group have ended.
func (g *Group) Wait() { g.wg.Wait() }
