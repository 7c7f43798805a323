package membership

import (
	"slices"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// own is this peer's part in the run: whether it contributes, what it offers, whether it stays.
type own struct {
	*facts
	*effects
	model *model

	offerSeq uint64
	reported uint64      // ReportOffers that came
	mine     *slot.Offer // the standing offer: announced, neither recorded nor too late
	mineAt   time.Duration
	waiting  *ReportOffer // came before this peer was a member

	contributes bool
	steps       uint32
	claims      []byte // for the next ALIVE
	leaving     bool
	leavingAt   time.Duration // since when
	left        bool
	farewell    bool // an event has reported that it left before a record dropped it
}

// leave makes this peer want to leave.
func (w *own) leave() {
	if !w.leaving {
		w.leaving, w.leavingAt = true, w.now
	}
}

// offer announces this peer's contribution; one that comes before this peer is a member waits until
// it is. The sequence number is on disk first: no restart uses one twice (HOLES H24).
func (w *own) offer(r ReportOffer) {
	c := w.chain
	w.waiting = nil
	if w.model.state.diverged || w.left || r.Slot != c.OpenSlot() || c.Ended() {
		return
	}
	if !w.member() {
		w.waiting = &r
		return
	}
	o := slot.Offer{
		Peer: w.cfg.Self, Slot: r.Slot, Seq: w.freshSeq(), Base: r.Base,
		Weight: max(r.Weight, 1), Root: r.Root, NormSq: r.NormSq, Steps: r.Steps,
		StepTime: r.StepTime,
	}
	if c.Rules().MaxWeight > 0 {
		o.Weight = min(o.Weight, c.Rules().MaxWeight)
	}
	if c.CheckOffer(o) != nil {
		return
	}
	w.offerSeq = o.Seq
	w.persist(wire.EntryOffer{Seq: o.Seq})
	w.mine = &o
	w.sendOffer()
}

// freshSeq returns a sequence number that this peer has used for no offer. Where the records list a
// later one than its log does, the log is an old copy, and the numbers after that one may be used
// up, too: for the open slot, by as many offers as others take. Two offers of one number evict.
func (w *own) freshSeq() uint64 {
	if spent := w.chain.SpentSeq(w.cfg.Self); spent > w.offerSeq {
		return spent + maxProven + 1
	}
	return w.offerSeq + 1
}

func (w *own) sendOffer() {
	w.mineAt = w.now
	w.gossip(wire.Offer{Offer: *w.mine}, w.cfg.Self)
}

// repeatOffer announces the standing offer again, because leaders change and forget. It waits
// longer while the leader plans with it. A leader repeats its plan every Retry. One that does not
// may have restarted, and then it has the offers of no other peer.
func (w *own) repeatOffer(f following) {
	if w.mine == nil {
		return
	}
	since, wait := w.mineAt, w.cfg.Timing.Retry
	if f.plan != nil && slices.Contains(f.plan.Offers, *w.mine) {
		since, wait = max(since, f.planAt), 4*wait
	}
	if w.now-since >= wait {
		w.sendOffer()
	}
}

// spendOffer updates the own offer once a record is certified. If the record lists the offer, it is
// spent as a whole. If not, and it is not too stale, it is offered again for the next slot.
func (w *own) spendOffer() {
	w.dropIfDiverged()
	if w.waiting != nil {
		w.offer(*w.waiting)
	}
	o := w.mine
	if o == nil || o.Slot == w.chain.OpenSlot() && o.Seq > w.chain.SpentSeq(o.Peer) {
		return
	}
	w.mine = nil
	if o.Seq > w.chain.SpentSeq(o.Peer) {
		w.offer(ReportOffer{
			Slot: w.chain.OpenSlot(), Base: o.Base, Weight: o.Weight, Root: o.Root, NormSq: o.NormSq,
			Steps: o.Steps, StepTime: o.StepTime,
		})
	}
}

// dropIfDiverged takes back the own offer when the state that it came from is found to be wrong.
func (w *own) dropIfDiverged() {
	if w.model.state.diverged {
		w.mine = nil
	}
}
