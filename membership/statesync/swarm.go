package statesync

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
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
//  4. Where workers are idle they get, too, the pieces that another donor has held for too long
//     (sequential, rescue).
//  5. Where all places are taken and other peers wait for one, donors that hold a piece for too
//     long give up theirs (sequential, rotate).
//
// A piece whose fetch failed goes back to the queue before the fault is reported, so it is never
// lost.
type swarm struct {
	*transfer
	patience time.Duration        // how long the fetch waits while it has no donor
	lacking  map[slot.PeerID]bool // peers that do not hold what is wanted
	claiming map[slot.PeerID]bool // peers that have said that they hold it
	rested   map[slot.PeerID]bool // peers that gave up their place, because they were slow
	stored   func(p *piece)       // called for every piece that is stored; may be nil
	pieces   []*piece
	// if set, asked now and then: whether something else would be here much sooner
	outpaced func(ctx context.Context) bool

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
	since   time.Time
	proven  bool // it has given a piece, or came before any place was scarce
	// since when each worker fetches a piece; nil: it does not
	busy []*atomic.Pointer[time.Time]
}

// holds tells whether the donor has held a piece for so long.
func (d *donor) holds(now time.Time, long time.Duration) bool {
	return slices.ContainsFunc(d.busy, func(b *atomic.Pointer[time.Time]) bool {
		since := b.Load()
		return since != nil && now.Sub(*since) >= long
	})
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
	w.x.queue = make(chan *piece, len(w.pieces)*w.maxCopies())
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
			w.rotate()
			if w.outpaced != nil && w.outpaced(ctx) {
				return w.leave(what)
			}
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

// waiting lists the peers that may be made donors, those that have had a place before last.
func (w *swarm) waiting() (ps []slot.PeerID) {
	var rested []slot.PeerID
	for _, p := range w.candidates() {
		switch {
		case w.active[p] != nil, w.lacking[p]:
		case w.rested[p]:
			rested = append(rested, p)
		default:
			ps = append(ps, p)
		}
	}
	return append(ps, rested...)
}

// admit starts workers for new peers, up to the limit of donors.
func (w *swarm) admit(ctx context.Context) {
	free := maxDonors - len(w.active)
	if free <= 0 {
		return
	}
	fresh := w.waiting()
	fresh = fresh[:min(len(fresh), free)]
	for _, p := range fresh {
		d := &donor{since: time.Now(), proven: len(w.rested) == 0}
		d.ctx, d.cancel = context.WithCancel(ctx)
		d.asked, d.dismiss = context.WithCancel(d.ctx)
		w.active[p] = d
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
	k := &worker{x: &w.x, dial: w.dial, ctx: d.ctx, asked: d.asked, peer: p, busySince: new(atomic.Pointer[time.Time])}
	select {
	case k.first = <-w.x.queue:
	default:
		if d.workers > 0 {
			return nil
		}
	}
	d.workers++
	d.busy = append(d.busy, k.busySince)
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
		if !w.lacking[r.peer] && w.claiming[r.peer] {
			w.disappoint(r.peer, "does not hold what it says that it holds")
		}
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
// another one took it later and delivered it, is dropped.
func (w *swarm) count(r result) {
	if d := w.active[r.peer]; d != nil {
		d.proven = true
	}
	w.Bytes += int64(r.sent)
	w.Decoded += r.p.size
	w.Sources[r.peer] += int64(r.sent)
	if w.stored != nil {
		w.stored(r.p)
	}
	for _, t := range r.p.slow {
		if t.peer == r.peer || t.at.After(r.taken) {
			continue
		}
		w.drop(Bad{Peer: t.peer, Reason: fmt.Sprintf("stalled: another donor gave what it had not given "+
			"for %v", time.Since(t.at).Round(time.Millisecond))})
		if d := w.active[t.peer]; d != nil {
			d.cancel()
		}
	}
}

// rescue gives pieces that the donor that took them last has held for too long to idle workers. So
// stalled donors do not hold up the end of a fetch until their timeouts.
func (w *swarm) rescue() {
	idle := w.x.idle.Load()
	for _, p := range w.pieces {
		t := p.holder.Load()
		if p.stored.Load() || t == nil || time.Since(t.at) < slowPiece {
			continue
		}
		if n := len(p.slow); n+1 >= w.maxCopies() || n > 0 && p.slow[n-1] == t {
			continue
		}
		if idle--; idle < 0 {
			return
		}
		p.slow = append(p.slow, t)
		w.x.queue <- p
	}
}

// maxCopies bounds how often a piece is in the queue or with a worker: once for each worker.
func (w *swarm) maxCopies() int { return maxDonors*w.cfg.Streams + 1 }

// rotate gives the place of a donor that is slow to a peer that had none yet. Where all are slow,
// because this peer's own link is, that changes little: only the places of the last maxTrials to
// come go from one to the next, and once all had a place nobody loses one.
func (w *swarm) rotate() {
	ps := w.waiting()
	if len(w.active) < maxDonors || len(ps) == 0 || w.rested[ps[0]] {
		return
	}
	now, limit := time.Now(), min(slowDonor, w.cfg.Timeout)
	var last slot.PeerID
	trials := 0
	for p, d := range w.active {
		switch slow := d.holds(now, limit); {
		case d.asked.Err() != nil: // its place is about to be free
			return
		case slow && (last == "" || d.since.After(w.active[last].since)):
			last = p
		case !slow && !d.proven:
			trials++
		}
	}
	if last == "" || trials >= maxTrials {
		return
	}
	w.cfg.Logger.Info("a slow donor gives its place to another", "peer", last)
	w.rested[last] = true
	w.active[last].cancel()
}

// leave ends a fetch that has been outpaced. The word of its donors counts less from now on.
func (w *swarm) leave(what string) error {
	for p := range w.active {
		w.disappoint(p, "gives so slowly that other peers would give another state sooner")
	}
	w.cfg.Logger.Warn("a state comes slowly, and others give another one sooner", "state", what)
	return fmt.Errorf("%w: %s: it comes so slowly that another would be here sooner", ErrNoDonor, what)
}
