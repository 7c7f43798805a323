//go:build cgo && unix

package cgo

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"sync"
	"syscall"
	"time"
)

const (
	// closeGrace is how long Close waits for the call under way and for destroy.
	closeGrace = 30 * time.Second
	// giveUpTime is how long a call that was cancelled is waited for. The next one waits for it.
	giveUpTime = 5 * time.Second
	// cancelEvery is how often a cancel is repeated: one before run has begun is lost.
	cancelEvery = 50 * time.Millisecond
	// saveAfter is how long a save waits for the call before it: a peer that leaves does not wait
	// for inner steps that do not end.
	saveAfter = 2 * time.Second
)

// call is one that the thread makes.
type call struct {
	doing string // its name in errors and in the record
	do    func() error
	done  chan struct{} // closed when err is set
	err   error

	cancellable bool
}

func newCall(doing string, do func() error) *call {
	return &call{doing: doing, do: do, done: make(chan struct{})}
}

// thread makes the calls, one after the other.
type thread struct {
	calls   chan *call
	ended   chan struct{}
	pending *call // the newest, of the caller's goroutine

	mu struct {
		sync.Mutex
		open  *call // under way
		moved time.Time
		steps uint64 // at that time
	}
}

func (t *libraryTrainer) serve() {
	runtime.LockOSThread() // and never unlocked: the thread ends with this goroutine
	defer close(t.thread.ended)
	for c := range t.thread.calls {
		t.record.begins(c.doing)
		t.thread.opens(c)
		c.err = c.do()
		t.thread.opens(nil)
		t.record.ends()
		close(c.done)
	}
}

func (t *thread) opens(c *call) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.mu.open, t.mu.moved, t.mu.steps = c, time.Now(), 0
}

// idle is how long the call under way has shown no progress, and its name.
func (t *thread) idle(steps uint64) (doing string, idle time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.mu.open == nil {
		return "", 0
	}
	if steps != t.mu.steps {
		t.mu.steps, t.mu.moved = steps, time.Now()
	}
	return t.mu.open.doing, time.Since(t.mu.moved)
}

// watch ends the process when a call hangs, until stop is closed.
func (t *libraryTrainer) watch(stop <-chan struct{}) {
	tick := time.NewTicker(min(time.Second, t.cfg.Timeout/4))
	defer tick.Stop()
	for {
		select {
		case <-stop:
			return
		case <-tick.C:
			if doing, idle := t.thread.idle(t.record.steps()); idle > t.cfg.Timeout {
				fmt.Fprintf(os.Stderr, "p2pdiloco: trainer: %s: %s: no progress for %v%s: it hangs, or needs more "+
					"time than --trainer-timeout gives it. This process ends by SIGABRT; started again, the peer goes "+
					"on as the same member\n", t.cfg.Path, doing, t.cfg.Timeout, t.record.place())
				_ = syscall.Kill(os.Getpid(), syscall.SIGABRT)
			}
		}
	}
}

// begin has a call made after the one before has ended.
func (t *libraryTrainer) begin(ctx context.Context, doing string, do func() error) (*call, error) {
	if err := t.usable(); err != nil {
		return nil, err
	}
	if p := t.thread.pending; p != nil {
		select {
		case <-p.done:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		_ = t.took(p.err) // its caller may not have waited for it
		if t.fault != nil {
			return nil, t.fault
		}
	}
	t.cancelled.Store(false)
	c := newCall(doing, do)
	t.thread.pending = c
	t.thread.calls <- c
	return c, nil
}

// call makes a call and waits for its end, whether ctx ends or not: it uses its caller's memory.
func (t *libraryTrainer) call(ctx context.Context, doing string, do func() error) error {
	c, err := t.begin(ctx, doing, do)
	if err != nil {
		return err
	}
	return t.wait(c)
}

func (t *libraryTrainer) wait(c *call) error {
	<-c.done
	return t.took(c.err)
}

// took notes an error after which the trainer cannot be used.
func (t *libraryTrainer) took(err error) error {
	var f *Fault
	if errors.As(err, &f) && !f.stands {
		t.fault = err
	}
	return err
}

// cancellable makes a call that is cancelled when ctx ends.
func (t *libraryTrainer) cancellable(ctx context.Context, doing string, do func() error) error {
	c, err := t.begin(ctx, doing, do)
	if err != nil {
		return err
	}
	c.cancellable = true
	select {
	case <-c.done:
		return t.took(c.err)
	case <-ctx.Done():
	}
	t.cancels(c, min(giveUpTime, t.cfg.Timeout))
	return ctx.Err()
}

// cancels asks a call to end, and says whether it has within a time.
func (t *libraryTrainer) cancels(c *call, within time.Duration) bool {
	limit, again := time.NewTimer(within), time.NewTicker(cancelEvery)
	defer limit.Stop()
	defer again.Stop()
	t.cancelled.Store(true)
	for {
		t.cancel()
		select {
		case <-c.done:
			return true
		case <-again.C:
		case <-limit.C:
			return false
		}
	}
}

func (t *libraryTrainer) usable() error {
	if t.closed {
		return t.errorf("closed: %w", net.ErrClosed)
	}
	return t.fault
}

func (t *libraryTrainer) errorf(format string, args ...any) error {
	return fmt.Errorf("%s: %w", t.cfg.Path, fmt.Errorf(format, args...))
}
