package plugin

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"time"
)

// abandonAfter is how long a caller waits for the library after a cancel.
const abandonAfter = time.Second

// turns lets callers call the library one after the other. A call goes on when its caller stops
// waiting for it, and the next caller waits until it has ended.
type turns struct {
	library string // its path, for errors
	host    *host
	closed  chan struct{}
	turn    chan struct{} // holds a token while somebody calls; its holder alone uses what follows
	pending *call         // a call that its caller did not wait for
	failed  bool          // by the ABI, only destroy may follow
	fault   error         // why
}

func newTurns(library string) turns {
	return turns{library: library, turn: make(chan struct{}, 1), closed: make(chan struct{})}
}

// watchers are functions that run before a call, and while it is under way.
type watchers struct {
	before func() // may use the shared vectors alone
	tick   func() // called at every tick
	// called when elements below upTo are exported, and at the end; an error ends the wait
	exported func(upTo uint64) error
}

// do makes a call and waits until it ends, or ctx does.
func (u *turns) do(ctx context.Context, c *call, w watchers) (reply, error) {
	if err := u.take(ctx); err != nil {
		return reply{}, err
	}
	defer u.release()
	if w.before != nil {
		w.before()
	}
	u.pending = u.host.start(c)
	return u.await(ctx, c, w)
}

// take waits for the turn to call, and for the end of an abandoned call.
func (u *turns) take(ctx context.Context) error {
	select {
	case u.turn <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	case <-u.closed:
		return u.isClosed()
	}
	err := u.settle(ctx)
	if err != nil {
		u.release()
	}
	return err
}

// settle waits for an abandoned call, and returns an error if there can be no other one.
func (u *turns) settle(ctx context.Context) error {
	if u.pending != nil {
		select {
		case <-u.pending.done:
			u.ended(u.pending)
		case <-ctx.Done():
			return ctx.Err()
		case <-u.closed:
		}
	}
	select {
	case <-u.closed:
		return u.isClosed()
	default:
	}
	if u.failed {
		return u.fault
	}
	return nil
}

func (u *turns) release() { <-u.turn }

func (u *turns) isClosed() error { return fmt.Errorf("%s: closed: %w", u.library, net.ErrClosed) }

// ended records the outcome of a call. A failed save or restore leaves the trainer usable.
func (u *turns) ended(c *call) {
	u.pending = nil
	harmless := c.err == nil || errors.Is(c.err, errCancelled) || (c.op == opSave || c.op == opRestore) &&
		u.host.dead == nil
	if !harmless && !u.failed {
		u.failed, u.fault = true, c.err
	}
}

// await waits for a call. If the call does not end soon after ctx, it is abandoned, and the next
// call waits for it.
func (u *turns) await(ctx context.Context, c *call, w watchers) (reply, error) {
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for {
		var err error
		select {
		case <-c.done:
			if u.ended(c); c.err == nil && w.exported != nil {
				return c.reply, w.exported(math.MaxUint64)
			}
			return c.reply, c.err
		case <-c.progress:
			if w.exported != nil {
				err = w.exported(c.exported.Load())
			}
		case <-ticker.C:
			if w.tick != nil {
				w.tick()
			}
		case <-ctx.Done():
			err = ctx.Err()
		case <-u.closed:
			err = u.isClosed()
		}
		if err != nil {
			u.leaveAlone(c)
			return reply{}, err
		}
	}
}

func (u *turns) leaveAlone(c *call) {
	c.cancelled()
	select {
	case <-c.done:
		u.ended(c)
	case <-time.After(abandonAfter):
	}
}
