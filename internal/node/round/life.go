package round

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/p2pdiloco/p2pdiloco/trainer"
)

// ErrClosed is returned by calls on a node that was closed. It unwraps to net.ErrClosed.
var ErrClosed = fmt.Errorf("p2pdiloco: node is closed: %w", net.ErrClosed)

// ErrGivenUp ends a node whose run nobody but its founder ever was in, for another run of the name.
// Close it, and Join again with the same configuration: that looks for the other run.
var ErrGivenUp = errors.New("p2pdiloco: this peer gives its run up")

// Life is the lifetime of one node. Its methods may be called from any goroutine.
type Life struct {
	log   *slog.Logger
	began time.Time
	ctx   context.Context // ends with the node
	stop  context.CancelFunc
	fault atomic.Pointer[error] // why the node ended by itself
	mu    sync.Mutex            // held where wg grows while the node may be closed
	wg    sync.WaitGroup
}

// NewLife begins one.
func NewLife(log *slog.Logger) *Life {
	l := &Life{log: log, began: time.Now()}
	l.ctx, l.stop = context.WithCancel(context.Background())
	return l
}

// Context returns a context that ends with the node.
func (l *Life) Context() context.Context { return l.ctx }

// Age is the time since NewLife.
func (l *Life) Age() time.Duration { return time.Since(l.began) }

// Over says whether the node is closed, or has ended by itself.
func (l *Life) Over() bool { return l.ctx.Err() != nil }

// Go runs f in a goroutine, unless the life is over. f must return when Context ends.
func (l *Life) Go(f func()) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.Over() {
		return false
	}
	l.wg.Go(f)
	return true
}

// Fail ends the node for a fault that it cannot go on with, as a crash would: what is agreed is on
// the others' disks.
func (l *Life) Fail(err error) {
	if t := (*trainer.Error)(nil); !errors.As(err, &t) && !errors.Is(err, ErrGivenUp) {
		// else the caller of Run gets it
		l.log.Error("the node ends", "err", err)
	}
	l.fault.CompareAndSwap(nil, &err)
	l.stop()
}

// Failed says whether Fail has ended the node.
func (l *Life) Failed() bool { return l.fault.Load() != nil }

// End ends the life in order. A goroutine that is being started has begun, or will not begin.
func (l *Life) End() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stop()
}

// Wait waits for the goroutines that Go has started, once the life is over.
func (l *Life) Wait() { l.wg.Wait() }

// Err says why a life that is over has ended: the fault, or ErrClosed and the cause, if there is
// one.
func (l *Life) Err(cause error) error {
	if fault := l.fault.Load(); fault != nil {
		return faultError{*fault}
	}
	return errors.Join(ErrClosed, cause)
}

// faultError is the reason why a node ended by itself. It is also ErrClosed, and its text does not
// repeat that.
type faultError struct{ error }

func (e faultError) Unwrap() error        { return e.error }
func (e faultError) Is(target error) bool { return errors.Is(ErrClosed, target) }
