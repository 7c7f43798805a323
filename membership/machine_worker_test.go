package membership

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// This is the lab's worker. Reduced bytes are their root, and a peer that has a root can give it to
// every peer that reaches it.

// do starts a piece of work that ends after labWorkTime.
func (p *labPeer) do(w Work) {
	if a, ok := w.(WorkApply); ok && p.lies == nil {
		p.lab.watch.applies(p, a.Record)
	}
	if a, ok := w.(WorkAudit); ok {
		p.audit(a)
		return
	}
	if p.lab.manual {
		p.finish(w)
		return
	}
	after := labWorkTime
	if r, ok := w.(WorkReduce); ok && p.lab.reducing > 0 {
		if p.began == nil {
			p.began = map[slot.Root]time.Duration{}
		}
		group := r.Plan.Group()
		if _, goesOn := p.began[group]; !goesOn {
			p.began[group] = p.lab.now
		}
		after = max(labWorkTime, p.began[group]+p.lab.reducing-p.lab.now)
	}
	p.later(after, func() { p.finish(w) })
}

func (p *labPeer) finish(w Work) {
	switch w := w.(type) {
	case WorkFound:
		initial := "initial " + p.name
		if p.lab.seeded {
			initial = "initial"
		}
		p.become(0, slot.Hash([]byte(initial)), slot.Genesis(p.lab.rules.Run).Hash())
	case WorkReduce:
		p.reduce(w)
	case WorkAccess:
		p.turnKey(w)
	case WorkHold:
		if w.Draft.Kind == slot.Access {
			p.holdKey(w)
			return
		}
		if p.fetch(w.Draft.Segments) {
			p.report(ReportHeld{Ref: w.Draft.Ref, Outcome: w.Draft.Outcome()})
		} else {
			p.report(ReportFailed{Work: w, Err: "nobody has it"})
		}
	case WorkApply:
		p.apply(w)
	case WorkSync:
		p.sync(w)
	}
}

// within leaves out the newcomers that are too many, as an engine does: one that it has left out
// once gives it nothing any more in that group.
func (p *labPeer) within(w WorkReduce, set slot.Bitmap) slot.Bitmap {
	group := w.Plan.Group()
	if p.excused[group] == nil {
		p.excused = map[slot.Root]slot.Bitmap{group: slot.NewBitmap(len(set) * 8)}
	}
	for i := range set {
		set[i] &^= p.excused[group][i]
	}
	may := w.Share.Within(set, w.Plan.OwnsPiece)
	for i := range set {
		p.excused[group][i] |= set[i] &^ may[i]
	}
	return may
}

// reduce names those of the group that cannot be reached and states the own pieces without them, if
// enough are left, and without newcomers that are too many then. What is stated once stays.
func (p *labPeer) reduce(w WorkReduce) {
	plan := w.Plan
	group, set := plan.Group(), slot.NewBitmap(len(plan.Offers))
	whole := true // of a ring: all neighbours work together
	for i, o := range plan.Offers {
		if len(plan.Ring) > 0 && !plan.Gone.Has(i) {
			set.Set(i)
			whole = whole && p.worksInRing(plan, i)
			continue
		}
		switch q := p.lab.peer(labName(o.Peer)); {
		case plan.Gone.Has(i):
		case q != p && (!p.lab.reaches(p, q) || q.broken):
			p.report(ReportLost{Group: group, Peer: o.Peer, Reason: wire.LostConnection})
		default:
			set.Set(i)
		}
	}
	if len(plan.Ring) == 0 && !p.crowds {
		set = p.within(w, set)
	}
	switch at := plan.Place(p.id); {
	case plan.Gone.Has(at):
		return
	case p.broken:
		p.later(50*labWorkTime, func() { p.report(ReportFailed{Work: WorkReduce{Plan: plan}, Err: "broken"}) })
		return
	case p.stuck || !whole || !plan.Wide(set.Count(), p.lab.rules.MinPeers):
		return
	}
	for _, piece := range plan.Pieces {
		done := func(s ReportSegment) bool { return s.Segment.Range == piece.Range }
		if piece.Owner == p.id && !slices.ContainsFunc(p.m.open.groupReports.stated, done) {
			root := slot.Hash(fmt.Appendf(group[:], "%v of %v by %s %d60", piece.Range, set, p.name, p.life))
			root = p.forged(root)
			p.segments[root] = true
			p.report(ReportSegment{
				Group:   group,
				Segment: slot.Segment{Range: piece.Range, Contributors: set, Root: root},
			})
		}
	}
}

// worksInRing says whether a peer passes on what comes, to neighbours that it reaches. Own
// neighbours that do not are reported.
func (p *labPeer) worksInRing(plan slot.Plan, i int) bool {
	q, at, whole := p.lab.peer(labName(plan.Offers[i].Peer)), plan.Place(p.id), true
	for j, o := range plan.Offers {
		if other := p.lab.peer(labName(o.Peer)); plan.Beside(i, j) && (!p.lab.reaches(q, other) || other.broken) {
			whole = false
			if i == at {
				p.report(ReportLost{
					Group: plan.Group(), Peer: o.Peer, Reason: wire.LostConnection,
					Round: plan.Round(),
				})
			}
		}
	}
	return whole && !q.mute
}

// fetch gets reduced bytes onto the own disk, from anybody within reach.
func (p *labPeer) fetch(segments []slot.Segment) bool {
	for _, s := range segments {
		if !p.segments[s.Root] {
			has := func(q *labPeer) bool { return q.segments[s.Root] && !p.unfed && p.lab.reaches(p, q) }
			if !slices.ContainsFunc(p.lab.peers, has) {
				return false
			}
			p.segments[s.Root] = true
		}
	}
	return true
}

func (p *labPeer) apply(w WorkApply) {
	r := w.Record
	before, ok := p.states[r.Height-1]
	if !ok || before.record != r.Prev || !p.fetch(r.Segments) {
		p.report(ReportFailed{Work: w, Err: "nobody has the outcome"})
		return
	}
	root := before.root
	if r.Kind == slot.Step {
		outcome := r.Outcome()
		root = slot.Hash(append(root[:], outcome[:]...))
	}
	p.become(r.Height, root, r.Hash())
}

// become makes a state durable and reports it. A few older ones stay for others to fetch.
func (p *labPeer) become(height uint64, root, record slot.Root) {
	for h := range p.states {
		if h > height || h+4 < height {
			delete(p.states, h)
		}
	}
	p.states[height] = labState{root, record}
	p.report(ReportApplied{Height: height, StateRoot: root, Record: record})
	if s := p.m.model.state; p.lies == nil && s.known && !s.diverged && s.height == height && s.root == root {
		p.lab.watch.holds(p, height, root)
	}
}

func (p *labPeer) sync(w WorkSync) {
	for _, want := range w.Roots {
		for _, id := range w.From {
			if q := p.lab.peer(labName(id)); q != nil && !p.unfed && p.lab.reaches(p, q) &&
				q.states[want.Height].root == want.Root {
				p.states = map[uint64]labState{}
				p.become(want.Height, want.Root, want.Record)
				return
			}
		}
	}
	p.report(ReportFailed{Work: w, Err: "nobody serves it"})
}

// train is the node: one contribution a slot, while this peer is a member whose state is current.
func (p *labPeer) train() {
	// what View says of them; all of it is made too slowly to be asked at each event
	m, s := p.m, p.m.chain.OpenSlot()
	synced := m.model.state.known && !m.model.state.diverged
	if !p.trains || !m.member() || !synced || m.model.state.slot+1 != s || p.training == s && p.moves == m.switches ||
		m.own.left || m.own.leaving {
		return
	}
	p.training, p.moves = s, m.switches
	p.later(labTraining+p.slowness, func() {
		p.offer(s)
	})
}

// offer reports a contribution.
func (p *labPeer) offer(s uint64) {
	p.report(ReportOffer{
		Slot: s, Base: s - 1, Weight: cmp.Or(p.weight, 10),
		Root: slot.Hash(fmt.Appendf(nil, "%s %d %d", p.name, p.life, s)),
	})
}

// connect tells all peers, or some, which peers are directly connected to them.
func (l *lab) connect(some ...*labPeer) {
	if len(some) == 0 {
		some = l.peers
	}
	for _, p := range some {
		for _, q := range l.peers {
			if p != q {
				p.report(ReportConnected{Peer: q.id, Connected: l.reaches(p, q)})
			}
		}
	}
}

func (l *lab) peer(name string) *labPeer {
	i := slices.IndexFunc(l.peers, func(p *labPeer) bool { return p.name == name })
	if i < 0 {
		return nil
	}
	return l.peers[i]
}
