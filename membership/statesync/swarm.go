package statesync

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// A swarm fetches pieces from all donors at once:
//
//  1. All pieces wait in one queue. Each donor gets its first piece before any worker starts, so
//     that small states, too, come from several donors (sequential, in run).
//  2. Workers fetch and verify one piece each and take the next one when it is stored (parallel,
//     worker.go).
//  3. Results and faults come back over one channel to run, which alone changes the swarm's state
//     (sequential).
//  4. At the end, a second donor gets the pieces that one donor has held for too long (sequential,
//     in run).
//
// A piece whose fetch failed goes back to the queue before the fault is reported, so it is never
// lost.
type swarm struct {
	*transfer
	patience time.Duration        // how long the fetch waits while it has no donor
	lacking  map[slot.PeerID]bool // peers that do not hold what is wanted
	stored   func(p *piece)       // called for every piece that is stored; may be nil
	pieces   []*piece

	x      exchange
	active map[slot.PeerID]*donor
	wg     sync.WaitGroup
}

// donor is a peer that pieces are fetched from. Only run uses it.
type donor struct {
	ctx     context.Context // of its workers
	cancel  context.CancelFunc
	asked   context.Context // within ctx: ends when nothing more is asked
	dismiss context.CancelFunc
	workers int // that still run
}

// stop ends the donor's workers when the first of them has stopped. After a refusal, the answers to
// what the others have asked are most likely refusals, too, and on their way: those may come, so
// that their streams end well.
func (d *donor) stop(why error) {
	switch {
	case d.asked.Err() != nil: // it was done before
	case isRefusal(why):
		d.dismiss()
		time.AfterFunc(slowPiece, d.cancel)
	default:
		d.cancel()
	}
}

// run returns when all pieces are stored, no donor is left, or ctx ends. All that it started has
// ended by then.
func (w *swarm) run(ctx context.Context, what string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer w.wg.Wait()
	defer cancel()
	w.x.queue = make(chan *piece, 2*len(w.pieces))
	for _, p := range w.pieces {
		w.x.queue <- p
	}
	w.x.results, w.x.over = make(chan result), ctx.Done()
	w.active = map[slot.PeerID]*donor{}
	poll := time.NewTicker(pollTime)
	defer poll.Stop()
	lonely := time.Now()
	for left := len(w.pieces); left > 0; {
		w.admit(ctx)
		if len(w.active) > 0 {
			lonely = time.Now()
		} else if time.Since(lonely) >= w.patience {
			return w.noDonor(what)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-poll.C:
			w.rescue()
		case r := <-w.x.results:
			if r.err == nil {
				left--
				w.count(r)
			} else if err := w.stopped(r); err != nil {
				return err
			}
		}
	}
	return nil
}

// admit starts workers for new peers, up to the limit of donors.
func (w *swarm) admit(ctx context.Context) {
	var fresh []slot.PeerID
	for _, p := range w.from() {
		if w.active[p] == nil && !w.lacking[p] && !w.bad(p) && len(w.active) < maxDonors {
			d := &donor{}
			d.ctx, d.cancel = context.WithCancel(ctx)
			d.asked, d.dismiss = context.WithCancel(d.ctx)
			w.active[p] = d
			fresh = append(fresh, p)
		}
	}
	var start []*worker
	for range w.cfg.Streams {
		for _, p := range fresh {
			if k := w.hire(p); k != nil {
				start = append(start, k)
			}
		}
	}
	for _, k := range start {
		w.wg.Go(k.run)
	}
}

// hire makes a worker and gives it its first piece. When no piece is left only the first worker of
// a donor is made: it stands by for pieces that come back.
func (w *swarm) hire(p slot.PeerID) *worker {
	d := w.active[p]
	k := &worker{x: &w.x, dial: w.dial, ctx: d.ctx, asked: d.asked, peer: p}
	select {
	case k.first = <-w.x.queue:
	default:
		if d.workers > 0 {
			return nil
		}
	}
	d.workers++
	return k
}

// stopped takes note of a worker that has stopped. It returns an error if the whole fetch must end.
func (w *swarm) stopped(r result) error {
	var local localError
	if errors.As(r.err, &local) {
		return local.error
	}
	d := w.active[r.peer]
	switch {
	case errors.Is(r.err, errNotHeld):
		w.lacking[r.peer] = true
	case d.asked.Err() == nil: // otherwise the swarm has stopped it
		var liar *lieError
		w.drop(Bad{r.peer, r.err.Error(), errors.As(r.err, &liar)})
	}
	d.stop(r.err) // the donor's other workers, too
	if d.workers--; d.workers == 0 {
		delete(w.active, r.peer)
	}
	return nil
}

// count takes note of a piece that is stored. A donor that held the piece for too long, while
// another one delivered it, is dropped.
func (w *swarm) count(r result) {
	w.Bytes += int64(r.sent)
	w.Decoded += r.p.size
	w.Sources[r.peer] += int64(r.sent)
	if w.stored != nil {
		w.stored(r.p)
	}
	if t := r.p.slow; t != nil && t.peer != r.peer {
		w.drop(Bad{Peer: t.peer, Reason: fmt.Sprintf("stalled: another donor gave what it had not given "+
			"for %v", time.Since(t.at).Round(time.Millisecond))})
		if d := w.active[t.peer]; d != nil {
			d.cancel()
		}
	}
}

// rescue gives pieces that one donor has held for too long to idle workers, once each. So a stalled
// donor does not hold up the end of a fetch until its timeout.
func (w *swarm) rescue() {
	idle := w.x.idle.Load()
	for _, p := range w.pieces {
		t := p.holder.Load()
		if p.stored.Load() || p.slow != nil || t == nil || time.Since(t.at) < slowPiece {
			continue
		}
		if idle--; idle < 0 {
			return
		}
		p.slow = t
		w.x.queue <- p
	}
}
