//go:build cgo && unix

package cgo

// #include "host.h"
import "C"

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"syscall"
	"time"
	"unsafe"
)

const (
	// closeGrace is how long Close waits for the call under way and for destroy.
	closeGrace = 30 * time.Second
	// giveUpTime is how long a call that was cancelled is waited for. The next one waits for it.
	giveUpTime = 5 * time.Second
	// saveAfter is how long a save waits for the call before it: a peer that leaves does not wait
	// for inner steps that do not end.
	saveAfter = 2 * time.Second
	// lookEvery is how often a call is looked at, and a cancel repeated: one before run has begun
	// is lost.
	lookEvery = 100 * time.Millisecond
)

// call is one that the thread makes.
type call struct {
	doing string // its name in errors and in the record
	do    func() error
	done  chan struct{} // closed when err is set
	err   error
}

// serve makes the calls, one after the other.
func (l *library) serve() {
	runtime.LockOSThread() // and never unlocked: the thread ends with this goroutine
	for c := range l.calls {
		_, _ = l.record.WriteAt([]byte(c.doing), 0) // it helps, and is not needed
		c.err = c.do()
		_ = l.record.Truncate(0)
		close(c.done)
	}
}

// host calls a function of the library.
func (l *library) host(f C.enum_host_function, begin, count int, data unsafe.Pointer) C.int32_t {
	return C.host_call(l.h, f, C.uint64_t(begin), C.uint64_t(count), data)
}

// begin has a call made after the one before, which its caller may not have waited for.
func (l *library) begin(ctx context.Context, doing string, do func() error) (*call, error) {
	if err := l.usable(); err != nil {
		return nil, err
	}
	if l.newest != nil {
		if err := l.wait(ctx, l.newest, nil); ctx.Err() != nil || l.fault != nil {
			return nil, err
		}
	}
	l.cancelled.Store(false)
	return l.submit(doing, do), nil
}

func (l *library) submit(doing string, do func() error) *call {
	l.newest = &call{doing: doing, do: do, done: make(chan struct{})}
	l.calls <- l.newest
	return l.newest
}

// call makes a call and waits for its end, whether ctx ends or not: it uses its caller's memory.
func (l *library) call(ctx context.Context, doing string, do func() error) error {
	c, err := l.begin(ctx, doing, do)
	if err != nil {
		return err
	}
	return l.wait(context.Background(), c, nil)
}

// wait waits for a call, and tells look how many steps are done. It ends the process where the call
// hangs.
func (l *library) wait(ctx context.Context, c *call, look func(steps uint64)) error {
	tick := time.NewTicker(min(lookEvery, l.cfg.Timeout/4))
	defer tick.Stop()
	for steps, moved := l.StepsDone(), time.Now(); ; {
		select {
		case <-c.done:
			var f *Fault
			if errors.As(c.err, &f) && !f.stands {
				l.fault = c.err
			}
			return c.err
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
		if now := l.StepsDone(); now != steps {
			steps, moved = now, time.Now()
		}
		if time.Since(moved) > l.cfg.Timeout {
			l.hung(c)
		}
		if look != nil {
			look(steps)
		}
	}
}

func (l *library) hung(c *call) {
	fmt.Fprintf(os.Stderr, "p2pdiloco: trainer: %s: %s: no progress for %v: it hangs, or needs more time than "+
		"--trainer-timeout gives it; %d of %d steps of its newest run are done. This process ends by SIGABRT; started "+
		"again, the peer goes on as the same member\n", l.cfg.Path, c.doing, l.cfg.Timeout, l.StepsDone(),
		l.h.task.steps)
	_ = syscall.Kill(os.Getpid(), syscall.SIGABRT)
}

// cancellable makes a call that is cancelled when ctx ends, and is not waited for for long then.
func (l *library) cancellable(ctx context.Context, doing string, look func(uint64), do func() error) error {
	c, err := l.begin(ctx, doing, do)
	if err != nil {
		return err
	}
	if err = l.wait(ctx, c, look); ctx.Err() == nil {
		return err
	}
	l.cancel(c, min(giveUpTime, l.cfg.Timeout))
	return ctx.Err()
}

// cancel asks a call to end, and says whether it has within a time.
func (l *library) cancel(c *call, within time.Duration) bool {
	l.cancelled.Store(true)
	limit, again := time.NewTimer(within), time.NewTicker(lookEvery)
	defer limit.Stop()
	defer again.Stop()
	for {
		select {
		case <-c.done:
			return true
		default:
		}
		if l.h.trainer != nil {
			C.host_cancel(l.h)
		}
		select {
		case <-c.done:
			return true
		case <-again.C:
		case <-limit.C:
			return false
		}
	}
}

// Close destroys the trainer. What does not end in time is left alone, with the thread and the
// memory: the peer is leaving.
func (l *library) Close() error { return l.close(min(closeGrace, l.cfg.Timeout)) }

func (l *library) close(patience time.Duration) (err error) {
	if l.closed {
		return nil
	}
	l.closed = true
	defer close(l.calls)
	if l.newest != nil && !l.cancel(l.newest, patience) {
		return nil
	}
	if l.h.trainer != nil {
		end := l.submit("destroy", l.destroy)
		select {
		case <-end.done:
			err = end.err
		case <-time.After(patience):
			return l.faulty("destroy", "no progress for %v, so it was left alone: what it holds is free when the "+
				"process has ended", patience)
		}
	}
	if l.fault != nil { // there is nothing to add
		err = nil
	}
	return errors.Join(err, l.free())
}
