package allreduce

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/wire"
)

var (
	// it is for no reduction that runs or will run here
	errUnwanted = errors.New("stream is not wanted here")
	errEarly    = errors.New("the stream's plan is not known") // the plan may be on its way
)

// Accept serves a stream that a peer, whose identity the transport has proven, opened to this one.
// It returns when the stream is done with, and leaves it closed or reset. The error says why it was
// refused; peers that fail in a reduction are told to its Sink, not here. A stream whose plan is
// not known yet waits for it, within bounds.
func (e *Engine) Accept(from slot.PeerID, s wire.Stream) error {
	known := e.cfg.Known == nil || e.cfg.Known(from)
	if err := e.enter(from, known); err != nil {
		_ = s.Reset()
		return err
	}
	defer e.wg.Done()
	came := time.Now()
	in, h, err := e.welcome(from, s)
	e.leave(from, known)
	if err != nil {
		_ = s.Reset()
		e.cfg.Logger.Debug("all-reduce stream refused", "peer", from.String(), "height", h.Ref.Height, "revision",
			h.Revision, "err", err)
		return err
	}
	in.serve(s, came)
	return nil
}

// enter counts a stream that has no reduction yet.
func (e *Engine) enter(from slot.PeerID, known bool) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.mu.closed {
		return ErrClosed
	}
	if e.mu.waiting >= e.maxPending || e.mu.pending[from] >= e.maxPendingPeer || !known &&
		e.mu.unknown >= e.maxPending/8 {
		return fmt.Errorf("%w: too many streams are waiting for a plan", errUnwanted)
	}
	if !known {
		e.mu.unknown++
	}
	e.mu.waiting++
	e.mu.pending[from]++
	e.wg.Add(1)
	return nil
}

func (e *Engine) leave(from slot.PeerID, known bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !known {
		e.mu.unknown--
	}
	e.mu.waiting--
	if e.mu.pending[from]--; e.mu.pending[from] == 0 {
		delete(e.mu.pending, from)
	}
}

// welcome reads the hello and finds the input it is for, waiting for a plan that is still on its
// way.
func (e *Engine) welcome(from slot.PeerID, s wire.Stream) (guest, hello, error) {
	stop := context.AfterFunc(e.ctx, func() { _ = s.Reset() })
	defer stop()
	h, err := e.readHello(s)
	if err != nil {
		return nil, h, err
	}
	wait := time.NewTimer(e.cfg.Stall)
	defer wait.Stop()
	for {
		r, changed, err := e.match(h)
		if err != nil {
			return nil, h, err
		}
		if r != nil {
			in, err := r.attach(from, h)
			if !errors.Is(err, errEarly) {
				return in, h, err
			}
		}
		select {
		case <-changed:
		case <-wait.C:
			return nil, h, fmt.Errorf("%w: its plan did not arrive in time", errUnwanted)
		case <-e.ctx.Done():
			return nil, h, ErrClosed
		}
	}
}

func (e *Engine) readHello(s wire.Stream) (hello, error) {
	l := link{s: s, stall: e.cfg.Stall, received: new(atomic.Uint64)}
	var b [helloSize]byte
	if err := l.readAtOnce(b[:]); err != nil { // who says it bit by bit must not keep a place
		return hello{}, err
	}
	return parseHello(b[:])
}

// match returns the reduction that a hello is for, or nil, and a channel that is closed when
// another plan starts; or an error if the stream is of another run or of a plan that has been
// replaced.
func (e *Engine) match(h hello) (*Reduction, <-chan struct{}, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	r := e.mu.current
	switch {
	case e.mu.closed:
		return nil, nil, ErrClosed
	case h.Run != e.cfg.Run:
		return nil, nil, fmt.Errorf("%w: it is of another run", errUnwanted)
	case r == nil:
		return nil, e.mu.changed, nil
	case r.group == h.Group:
		return r, e.mu.changed, nil
	case outdated(h, r.Plan()):
		return nil, nil, fmt.Errorf("%w: a newer plan runs", errUnwanted)
	default:
		return nil, e.mu.changed, nil
	}
}

// outdated says whether a hello is of a plan that the running one has replaced, or of another with
// the same number. Where chains differ nobody can tell which comes later: such a stream waits.
func outdated(h hello, running slot.Plan) bool {
	switch {
	case h.Ref.Height != running.Height:
		return h.Ref.Height < running.Height
	case h.Ref.Prev != running.Prev:
		return false
	case h.Ref.Ballot != running.Ballot:
		return h.Ref.Ballot < running.Ballot
	default:
		return h.Revision <= running.Revision
	}
}
