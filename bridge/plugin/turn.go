package plugin

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"time"
)

// Whose turn it is to call the library, and what becomes of a call whose caller has stopped waiting.

// abandonAfter is the time from a cancel to not waiting for the library any more.
const abandonAfter = time.Second

// watchers are what a caller does before its call, and while it is under way.
type watchers struct {
	before   func()                  // with the shared vectors for itself
	tick     func()                  // now and then
	exported func(upTo uint64) error // whenever elements below upTo are there, and at the end; an error ends the waiting
}

// do makes a call and waits for its end, or ctx's.
func (t *Trainer) do(ctx context.Context, c *call, w watchers) (reply, error) {
	if err := t.take(ctx); err != nil {
		return reply{}, err
	}
	defer t.release()
	if w.before != nil {
		w.before()
	}
	t.pending = t.host.start(c)
	return t.await(ctx, c, w)
}

// take waits for the turn to call, and for a call that was left alone.
func (t *Trainer) take(ctx context.Context) error {
	select {
	case t.turn <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	case <-t.closed:
		return t.isClosed()
	}
	err := t.settle(ctx)
	if err != nil {
		t.release()
	}
	return err
}

// settle waits for a call that was left alone, and says whether there can be another one.
func (t *Trainer) settle(ctx context.Context) error {
	if t.pending != nil {
		select {
		case <-t.pending.done:
			t.ended(t.pending)
		case <-ctx.Done():
			return ctx.Err()
		case <-t.closed:
		}
	}
	select {
	case <-t.closed:
		return t.isClosed()
	default:
	}
	if t.failed {
		return t.fault
	}
	return nil
}

func (t *Trainer) release() { <-t.turn }

func (t *Trainer) isClosed() error { return fmt.Errorf("%s: closed: %w", t.cfg.Path, net.ErrClosed) }

// ended notes what became of a call. Save and restore may fail and leave the trainer as it is.
func (t *Trainer) ended(c *call) {
	t.pending = nil
	harmless := c.err == nil || errors.Is(c.err, errCancelled) || (c.op == opSave || c.op == opRestore) && t.host.dead == nil
	if !harmless && !t.failed {
		t.failed, t.fault = true, c.err
	}
}

// await waits for a call. One that is not over soon after ctx has ended is left alone, and the next call waits for it.
func (t *Trainer) await(ctx context.Context, c *call, w watchers) (reply, error) {
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for {
		var err error
		select {
		case <-c.done:
			if t.ended(c); c.err == nil && w.exported != nil {
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
		case <-t.closed:
			err = t.isClosed()
		}
		if err != nil {
			t.leaveAlone(c)
			return reply{}, err
		}
	}
}

func (t *Trainer) leaveAlone(c *call) {
	c.cancelled()
	select {
	case <-c.done:
		t.ended(c)
	case <-time.After(abandonAfter):
	}
}
