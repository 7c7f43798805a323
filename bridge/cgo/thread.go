//go:build cgo && unix

package cgo

// #include "host.h"
import "C"

import (
	"cmp"
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
	// exitAborted is the status of a shell for a program that SIGABRT has ended.
	exitAborted = 128 + int(syscall.SIGABRT)
)

// call is one that the thread makes.
type call struct {
	doing string // its name in errors and in the record
	do    func() error
	done  chan struct{} // closed when err is set
	err   error

	cancellable bool
}

// ends says whether a call has ended, or does within a time.
func (c *call) ends(within time.Duration) bool {
	select {
	case <-c.done:
		return true
	default: // what is ready counts, also where no time is left
	}
	select {
	case <-c.done:
		return true
	case <-time.After(within):
		return false
	}
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
		_ = l.wait(ctx, l.newest, nil) // its own error is told already
		if err := cmp.Or(l.fault, ctx.Err()); err != nil {
			return nil, err
		}
	}
	l.cancelled.Store(false)
	return l.submit(doing, do), nil
}

func (l *library) submit(doing string, do func() error) *call {
	l.newest = newCall(doing, do)
	l.calls <- l.newest
	return l.newest
}

func newCall(doing string, do func() error) *call {
	return &call{doing: doing, do: do, done: make(chan struct{})}
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
	every := min(lookEvery, max(time.Millisecond, l.cfg.Timeout/4))
	tick := time.Tick(every)
	idle := time.Duration(0) // of this process: it may have been stopped
	for steps := l.StepsDone(); ; idle += every {
		select {
		case <-c.done:
			if f, ok := errors.AsType[*Fault](c.err); ok && !f.stands {
				l.fault = c.err
			}
			return c.err
		case <-ctx.Done():
			return ctx.Err()
		case <-tick:
		}
		if now := l.StepsDone(); now != steps {
			steps, idle = now, 0
		}
		if idle > l.cfg.Timeout {
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
	time.Sleep(time.Second)
	os.Exit(exitAborted) // the first process of a container has no signals
}

// cancellable makes a call that is cancelled when ctx ends, and is not waited for for long then.
func (l *library) cancellable(ctx context.Context, doing string, look func(uint64), do func() error) error {
	c, err := l.begin(ctx, doing, do)
	if err != nil {
		return err
	}
	c.cancellable = true
	if err = l.wait(ctx, c, look); ctx.Err() == nil {
		return err
	}
	l.cancel(c, min(giveUpTime, l.cfg.Timeout))
	return ctx.Err()
}

// cancel asks a call to end, and says whether it has within a time.
func (l *library) cancel(c *call, within time.Duration) bool {
	pause, cancels := time.Duration(0), newCall("cancel", nil)
	close(cancels.done)
	for limit := time.Now().Add(within); !c.ends(pause) || !cancels.ends(pause); pause = lookEvery {
		if time.Now().After(limit) {
			return false
		}
		if l.cancelled.Store(true); c.cancellable && cancels.ends(0) {
			cancels = newCall("cancel", nil) // beside this goroutine: the library may block it
			go func(done chan struct{}) {
				C.host_cancel(l.h)
				close(done)
			}(cancels.done)
		}
	}
	return true
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
	alone := false
	if l.newest != nil {
		first := patience
		if l.cancelled.Load() { // it had its time
			first = min(first, time.Second)
		}
		alone = !l.cancel(l.newest, first)
	}
	if !alone && l.h.trainer != nil {
		end := l.submit("destroy", l.destroy)
		if alone = !end.ends(patience); alone {
			err = l.faulty("destroy", "no progress for %v, so it was left alone: what it holds is free when the "+
				"process has ended", patience)
		} else if l.fault == nil { // else there is nothing to add
			err = end.err
		}
	}
	if alone {
		return errors.Join(err, l.record.Truncate(0)) // it is no crash
	}
	return errors.Join(err, l.free())
}
