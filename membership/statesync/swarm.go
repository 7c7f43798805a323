package statesync

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// A swarm fetches pieces from all donors side by side:
//
//  1. pieces wait in one queue; each donor is dealt its first one before anybody starts, so that small things too come
//     from several donors (sequential, in run)
//  2. workers, Streams a donor, fetch and verify one piece each and take the next when it is stored (parallel, worker.go)
//  3. results and faults come back over one channel to run, which alone keeps the books (sequential)
//  4. at the end, pieces that a donor has been sitting on are given to a second one (sequential, in run)
//
// A piece whose fetch failed goes back to the queue before the fault is told, so it is never lost.
type swarm struct {
	c        *Client
	report   *Report
	from     func() []slot.PeerID // may grow
	patience time.Duration        // without any donor
	gone     map[slot.PeerID]bool // does not hold what is wanted
	fetched  func(p *piece)       // told of every piece that is stored; may be nil

	pieces  []*piece
	queue   chan *piece // has room for every piece twice: sending never blocks
	results chan result
	over    <-chan struct{} // closed when run no longer listens
	idle    atomic.Int32    // workers with nothing to do
	active  map[slot.PeerID]*donor
	wg      sync.WaitGroup
}

// piece is a part of what is wanted.
type piece struct {
	size  int64
	fetch func(c *conn, dst []byte) (sent int, err error) // fetches and verifies size bytes
	store func(b []byte) error                            // keeps them; called once

	stored atomic.Bool // or about to be
	taken  atomic.Pointer[taking]
	slow   *taking // who sat on it when it was given to a second donor; run's own
}

// taking says who has a piece, and since when.
type taking struct {
	peer slot.PeerID
	at   time.Time
}

// donor is a peer that is being asked; run's own.
type donor struct {
	ctx     context.Context // of its workers
	cancel  context.CancelFunc
	workers int // still at work
}

// result is what a worker tells: a piece that is stored, or, last, why it stopped.
type result struct {
	peer slot.PeerID
	p    *piece
	sent int
	err  error
}

// run returns when all pieces are stored, nobody is left to ask, or ctx ends. All it started has ended then.
func (w *swarm) run(ctx context.Context, what string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer w.wg.Wait()
	defer cancel()
	w.queue = make(chan *piece, 2*len(w.pieces))
	for _, p := range w.pieces {
		w.queue <- p
	}
	w.results, w.over = make(chan result), ctx.Done()
	w.active = map[slot.PeerID]*donor{}
	poll := time.NewTicker(w.c.cfg.Poll)
	defer poll.Stop()
	lonely := time.Now()
	for left := len(w.pieces); left > 0; {
		w.admit(ctx)
		if len(w.active) > 0 {
			lonely = time.Now()
		} else if time.Since(lonely) >= w.patience {
			return w.report.noDonor(what)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-poll.C:
			w.rescue()
		case r := <-w.results:
			if r.err == nil {
				left--
			}
			if err := w.book(r); err != nil {
				return err
			}
		}
	}
	return nil
}

// admit starts workers for the peers that are new, as far as Donors allows.
func (w *swarm) admit(ctx context.Context) {
	var fresh []slot.PeerID
	for _, p := range w.from() {
		if w.active[p] == nil && !w.gone[p] && !w.report.bad(p) && len(w.active) < w.c.cfg.Donors {
			d := &donor{}
			d.ctx, d.cancel = context.WithCancel(ctx)
			w.active[p] = d
			fresh = append(fresh, p)
		}
	}
	var start []*worker
	for range w.c.cfg.Streams {
		for _, p := range fresh {
			if k := w.deal(p); k != nil {
				start = append(start, k)
			}
		}
	}
	for _, k := range start {
		w.wg.Go(k.run)
	}
}

// deal makes a worker and gives it its first piece. Where none is left, only a donor's first worker is of use: it stands
// by for pieces that come back.
func (w *swarm) deal(p slot.PeerID) *worker {
	d := w.active[p]
	k := &worker{w: w, ctx: d.ctx, peer: p}
	select {
	case k.first = <-w.queue:
	default:
		if d.workers > 0 {
			return nil
		}
	}
	d.workers++
	return k
}

// book keeps the books. It returns an error if the whole fetch must end.
func (w *swarm) book(r result) error {
	if r.err == nil {
		w.bookPiece(r)
		return nil
	}
	var local localError
	if errors.As(r.err, &local) {
		return local.error
	}
	d := w.active[r.peer]
	switch {
	case errors.Is(r.err, errNotHeld):
		w.gone[r.peer] = true
	case d.ctx.Err() == nil: // else it stops because we told it so
		var liar *lieError
		w.c.drop(w.report, Bad{r.peer, r.err.Error(), errors.As(r.err, &liar)})
	}
	d.cancel() // its other workers stop too
	if d.workers--; d.workers == 0 {
		delete(w.active, r.peer)
	}
	return nil
}

func (w *swarm) bookPiece(r result) {
	w.report.Bytes += int64(r.sent)
	w.report.Decoded += r.p.size
	w.report.Sources[r.peer] += int64(r.sent)
	if w.fetched != nil {
		w.fetched(r.p)
	}
	if t := r.p.slow; t != nil && t.peer != r.peer {
		w.c.drop(w.report, Bad{Peer: t.peer, Reason: fmt.Sprintf("stalled: another donor gave what it had not given for %v", time.Since(t.at).Round(time.Millisecond))})
		if d := w.active[t.peer]; d != nil {
			d.cancel()
		}
	}
}

// rescue gives pieces that a donor has been sitting on to idle workers, once each: at the end of a fetch a stalled donor
// must not hold everything up until its timeout.
func (w *swarm) rescue() {
	idle := w.idle.Load()
	for _, p := range w.pieces {
		t := p.taken.Load()
		if p.stored.Load() || p.slow != nil || t == nil || time.Since(t.at) < w.c.cfg.Slow {
			continue
		}
		if idle--; idle < 0 {
			return
		}
		p.slow = t
		w.queue <- p
	}
}
