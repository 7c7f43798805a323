package membership

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// churnPeer is one machine of a churnWorld and its worker.
type churnPeer struct {
	w     *churnWorld
	id    slot.PeerID
	inc   slot.Incarnation
	m     *Machine
	dead  bool
	alive *wire.Alive // on the board
	slot  uint64      // that is trained for
	plan  slot.Plan
	bytes uint64

	group  slot.Root // of the statements
	stated map[slot.Range]bool
}

func (w *churnWorld) newPeer() *churnPeer {
	w.made++
	root := slot.Hash(fmt.Appendf(nil, "churn %d", w.made))
	return &churnPeer{w: w, id: slot.PeerID(root[:8]), inc: slot.Incarnation(w.made)}
}

// churnPlanner gives each contributor an equal piece, and those of a peer that is gone to the next
// that lives.
func churnPlanner(p slot.Plan, _ slot.Links) ([]slot.Piece, []uint16) {
	const elements = 1 << 20
	var ps []slot.Piece
	n := len(p.Offers)
	for i := range p.Offers {
		owner := i
		for p.Gone.Has(owner) {
			owner = (owner + 1) % n
		}
		at := func(i int) uint64 { return uint64(i) * elements / uint64(n) }
		ps = append(ps, slot.Piece{Range: slot.Range{Begin: at(i), End: at(i + 1)}, Owner: p.Offers[owner].Peer})
	}
	return ps, nil
}

// start runs the machine on a chain. The first peers hold the state, newcomers fetch it.
func (p *churnPeer) start(commits []wire.Commit, holds bool) {
	w := p.w
	p.m = machineOn(Config{
		Self: p.id, Incarnation: p.inc, Rules: w.rules, Timing: churnTiming, Plan: churnPlanner,
		Verify: func(slot.PeerID, []byte, []byte) bool { return true },
	}, wire.Saved{Incarnation: p.inc, Boot: 1, Height: uint64(len(commits))}, heldRecords(commits))
	p.m.now = w.now
	for _, a := range p.m.presence.known {
		a.heard = w.now
	}
	if holds {
		p.applied(p.m.chain.Height())
	}
	p.report(ReportContributes{Contributes: true})
	if w.cfg.life > 0 {
		w.at(time.Duration(w.rand.ExpFloat64()*float64(w.cfg.life)), func() { w.die(p) })
	}
	w.at(w.between(0, churnTiming.Alive), p.look)
	w.at(w.between(0, churnTiming.Beat/2), p.tick)
}

// look takes in what is on the board.
func (p *churnPeer) look() {
	if p.dead {
		return
	}
	members := p.m.chain.Electorate()
	for _, q := range p.w.peers {
		if q.alive == nil || q == p {
			continue
		}
		a := p.m.presence.meet(memberKey{q.id, q.inc}, p.w.now, members, p.m.chain.Newcomers())
		a.heard, a.alive, a.suspected = p.w.now, q.alive, false
	}
	p.w.at(2*p.w.cfg.coarse, p.look)
}

func (p *churnPeer) tick() {
	if p.dead {
		return
	}
	if d := p.m.open; d.plan != nil && p.w.now < p.w.reduce.ends {
		p.bytes++
		p.m.Report(p.w.now, ReportProgress{Bytes: p.bytes})
	}
	p.m.Tick(p.w.now)
	p.flush()
	p.w.at(p.w.cfg.coarse, p.tick)
}

func (p *churnPeer) report(r Report) {
	if !p.dead {
		p.m.Report(p.w.now, r)
		p.flush()
	}
}

func (p *churnPeer) step(msg wire.Message) {
	if !p.dead {
		_ = p.m.Step(p.w.now, msg) // peers lag behind each other
		p.flush()
	}
}

// flush does what a driver does, without a disk: nobody comes back.
func (p *churnPeer) flush() {
	for {
		r := p.m.Ready()
		var own []wire.Message
		for _, e := range r.Send {
			msg := wire.Message{From: p.id, Incarnation: p.inc, Body: e.Body, Sig: []byte{1}}
			if p.send(e, msg) {
				own = append(own, msg)
			}
		}
		for _, work := range r.Work {
			p.do(work)
		}
		for _, e := range r.Events {
			switch e.Kind {
			case EventCommitted:
				p.w.committed(e)
			case EventResigned:
				p.w.result.resigned++
			}
		}
		for _, msg := range own {
			_ = p.m.Step(p.w.now, msg)
		}
		if len(own) == 0 {
			return
		}
	}
}

// send says whether the message comes back to the peer itself.
func (p *churnPeer) send(e wire.Envelope, msg wire.Message) (own bool) {
	if a, ok := e.Body.(wire.Alive); ok {
		p.alive = &a
		return false
	}
	deliver := func(q *churnPeer) {
		p.w.at(p.w.between(20*time.Millisecond, 120*time.Millisecond), func() { q.step(msg) })
	}
	for _, to := range e.To {
		if to == p.id {
			own = true
		} else if q := p.w.find(to); q != nil && !e.Gossip {
			deliver(q)
		}
	}
	if e.Gossip {
		offer, isOffer := e.Body.(wire.Offer)
		for _, q := range p.w.peers {
			if q != p && (!isOffer || !q.has(offer.Offer)) {
				deliver(q)
			}
		}
	}
	return own
}

// has says whether an offer said again would be nothing new.
func (p *churnPeer) has(o slot.Offer) bool {
	q := p.w.find(o.Peer)
	a := p.m.presence.known[memberKey{q.id, q.inc}]
	return a != nil && a.offer != nil && a.offer.Seq >= o.Seq
}

// do lets the time pass that a piece of work takes.
func (p *churnPeer) do(work Work) {
	w := p.w
	switch work := work.(type) {
	case WorkReduce:
		p.plan = work.Plan
		w.at(w.endOf(work.Plan)-w.now+w.between(0, time.Second), func() { p.reduced(work) })
	case WorkHold:
		w.at(w.between(time.Second, 2*time.Second), func() {
			p.report(ReportHeld{Ref: work.Draft.Ref, Outcome: work.Draft.Outcome()})
		})
	case WorkApply:
		w.at(w.between(200*time.Millisecond, time.Second), func() { p.applied(work.Record.Height) })
	case WorkSync:
		newest := work.Roots[0]
		w.at(w.between(10*time.Second, 20*time.Second), func() {
			p.report(ReportApplied{
				Height: newest.Height, Slot: newest.Slot, StateRoot: newest.Root,
				Record: newest.Record,
			})
			p.train()
		})
	}
}

// reduced states the own pieces that are not stated yet, with all living peers; a newer plan has
// taken the place of an older one.
func (p *churnPeer) reduced(work WorkReduce) {
	plan := work.Plan
	if p.dead || p.plan.Ref != plan.Ref || p.plan.Revision != plan.Revision {
		return
	}
	group := plan.Group()
	if group != p.group {
		p.group, p.stated = group, map[slot.Range]bool{}
	}
	in := slot.NewBitmap(len(plan.Offers))
	for i, o := range plan.Offers {
		if !plan.Gone.Has(i) && p.w.find(o.Peer) != nil {
			in.Set(i)
		}
	}
	in = work.Share.Within(in, func(int) bool { return false })
	for _, piece := range plan.Pieces {
		if piece.Owner == p.id && !p.stated[piece.Range] {
			p.stated[piece.Range] = true
			root := slot.Hash(fmt.Appendf(group[:], "%d %v", plan.Revision, piece.Range))
			p.report(ReportSegment{
				Group:   group,
				Segment: slot.Segment{Range: piece.Range, Contributors: in, Root: root},
			})
		}
	}
}

// accuse tells the leader of a lost peer, if it is in the reduction that this one is in.
func (p *churnPeer) accuse(lost slot.PeerID) {
	if p.dead || p.m.open.plan == nil {
		return
	}
	plan := *p.m.open.plan
	if i := plan.Place(lost); i >= 0 && !plan.Gone.Has(i) && plan.Place(p.id) >= 0 {
		p.report(ReportLost{Group: plan.Group(), Peer: lost, Reason: wire.LostConnection})
	}
}

// applied reports the state after a record, and starts the next round.
func (p *churnPeer) applied(height uint64) {
	if p.dead {
		return
	}
	r, record := p.m.chain.At(height), p.m.chain.Hash(height)
	root, known := p.w.after[record]
	if !known {
		root = p.w.after[r.Prev]
		if outcome := r.Outcome(); r.Kind == slot.Step {
			root = slot.Hash(append(root[:], outcome[:]...))
		}
		p.w.after[record] = root
	}
	p.report(ReportApplied{Height: height, Slot: r.Slot, StateRoot: root, Record: record})
	p.train()
}

// train does the inner steps of the open slot, once.
func (p *churnPeer) train() {
	s, open := p.m.model.state, p.m.chain.OpenSlot()
	if p.dead || !s.known || s.slot+1 != open || p.slot == open {
		return
	}
	p.slot = open
	r := rand.New(rand.NewPCG(uint64(p.inc), open)) // the same, whatever else happens
	took := p.w.cfg.train * time.Duration(95+r.IntN(10)) / 100
	if r.Float64() < p.w.cfg.late {
		took += time.Duration(2 * r.Float64() * float64(p.w.cfg.train))
	}
	p.w.at(took, func() {
		if p.dead || p.m.chain.OpenSlot() != open {
			return // too late: the real one's inner steps end when its slot closes
		}
		p.w.result.offered++
		p.report(ReportOffer{
			Slot: open, Base: open - 1, Weight: 1,
			Root: slot.Hash(fmt.Appendf(nil, "%x %d", p.id, open)),
		})
	})
}
