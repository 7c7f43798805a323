package statesync

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/wire"
)

const (
	maxStrikes   = 2 // faults in a row with which a donor is dropped: one may be a connection that came to its end
	maxBusy      = 8 // answers in a row that it is busy: 12 s in all
	firstBackoff = 50 * time.Millisecond
)

// localError is a fault of ours, such as a full disk: no other donor can help.
type localError struct{ error }

func (e localError) Unwrap() error { return e.error }

// worker fetches pieces from one donor over one stream at a time.
type worker struct {
	w     *swarm
	ctx   context.Context // ends when the donor is dropped or the fetch is over
	peer  slot.PeerID
	first *piece // dealt before it started; may be nil

	conn          *conn
	buf           []byte
	strikes, busy int // in a row
}

// run works until the donor has to be given up, and tells why.
func (k *worker) run() {
	err := k.work()
	k.hangUp(true)
	k.tell(result{peer: k.peer, err: err})
}

// tell hands a result to the swarm, which listens until the fetch is over.
func (k *worker) tell(r result) {
	select {
	case k.w.results <- r:
	case <-k.w.over:
	}
}

func (k *worker) work() error {
	for {
		p, err := k.take()
		if err != nil {
			return err
		}
		if p.stored.Load() { // a second donor was faster
			continue
		}
		p.taken.Store(&taking{k.peer, time.Now()})
		sent, err := k.fetch(p)
		if err != nil {
			k.w.queue <- p
			k.hangUp(true)
			if err := k.judge(err); err != nil {
				return err
			}
			continue
		}
		k.strikes, k.busy = 0, 0
		if !p.stored.CompareAndSwap(false, true) {
			continue
		}
		if err := p.store(k.buf); err != nil {
			return localError{err}
		}
		k.tell(result{peer: k.peer, p: p, sent: sent})
	}
}

func (k *worker) take() (*piece, error) {
	if p := k.first; p != nil {
		k.first = nil
		return p, nil
	}
	k.w.idle.Add(1)
	defer k.w.idle.Add(-1)
	select {
	case <-k.ctx.Done():
		return nil, k.ctx.Err()
	case p := <-k.w.queue:
		return p, nil
	}
}

// fetch leaves the piece's verified bytes in buf.
func (k *worker) fetch(p *piece) (sent int, err error) {
	if k.conn == nil {
		if k.conn, err = k.w.c.dial(k.ctx, k.peer); err != nil {
			return 0, err
		}
	}
	if int64(cap(k.buf)) < p.size {
		k.buf = make([]byte, p.size)
	}
	k.buf = k.buf[:p.size]
	return p.fetch(k.conn, k.buf)
}

// hangUp closes the stream.
func (k *worker) hangUp(fault bool) {
	if k.conn != nil {
		k.conn.close(fault)
		k.conn = nil
	}
}

// judge says whether the donor is to be given up after a fault, and waits before the next try where it is not.
func (k *worker) judge(err error) error {
	var liar *lieError
	wait := firstBackoff
	switch {
	case k.ctx.Err() != nil:
		return k.ctx.Err()
	case errors.As(err, &liar), errors.Is(err, errNotHeld), errors.Is(err, errSpent):
		return err
	case errors.Is(err, errBusy):
		if k.busy++; k.busy >= maxBusy {
			return fmt.Errorf("was busy %d times in a row", k.busy)
		}
		wait <<= k.busy
	default:
		if k.strikes++; k.strikes >= maxStrikes || wire.TimedOut(err) { // two waits for a deadline would be too long
			return fmt.Errorf("cannot be reached, or stalls: %w", err)
		}
	}
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case <-k.ctx.Done():
		return k.ctx.Err()
	case <-t.C:
		return nil
	}
}
