package membership

import (
	"slices"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// A group's reduction outlives plans, ballots and leaders: what a peer said about it to one leader, it says to the next.

// testimony is what this peer has to say about the group of the newest plan.
type testimony struct {
	group  slot.Root
	since  time.Duration  // when this peer first heard of it
	stated []slot.Segment // ranges of own pieces that are reduced
	lost   []ReportLost   // peers that failed this one, each once for a reason
}

// onPlan takes the leader's plan or its revision, and takes part if this peer is in the group. A plan that is repeated asks for
// what its leader may not have heard.
func (m *Machine) onPlan(msg Message, p slot.Plan) error {
	if err := m.follow(msg, p.Ballot); err != nil {
		return err
	}
	d := m.open
	if d.plan != nil && p.Revision <= d.plan.Revision {
		if p.Revision == d.plan.Revision {
			m.sayAgain()
		}
		return nil
	}
	if err := m.checkPlan(p); err != nil {
		return err
	}
	m.noticeRing(d.last, p)
	d.plan, d.last, d.draft, d.bytes = &p, &p, nil, 0
	m.sawLife(p.Revision)
	m.event(Event{
		Kind: EventPlanned, Height: p.Height, Slot: p.Slot, Ballot: p.Ballot, Members: livingOf(p), Peer: msg.From, Detail: scheduleOf(p),
		Plan: &p, Links: m.links(p.Offers),
	})
	if g := p.Group(); g != d.testimony.group {
		d.testimony = testimony{group: g, since: m.now}
	}
	d.testimony.stated = slices.DeleteFunc(slices.Clone(d.testimony.stated), func(s slot.Segment) bool { return !owns(p, m.cfg.Self, s.Range) })
	switch i := p.Place(m.cfg.Self); {
	case i < 0:
	case p.Gone.Has(i):
		m.work(WorkReduce{p}) // it ends
	case m.mine != nil && *m.mine == p.Offers[i] && !m.state.diverged:
		m.work(WorkReduce{p})
		m.sayAgain()
	default: // the bytes of this offer went with a restart
		m.accuse(ReportLost{Group: d.testimony.group, Peer: m.cfg.Self, Reason: LostConnection})
	}
	return nil
}

// scheduleOf names a schedule other than rotation.
func scheduleOf(p slot.Plan) string {
	if len(p.Ring) > 0 {
		return "ring"
	}
	return ""
}

// livingOf lists the peers of a group that are not gone.
func livingOf(p slot.Plan) []slot.PeerID {
	ps := make([]slot.PeerID, 0, len(p.Offers))
	for i, o := range p.Offers {
		if !p.Gone.Has(i) {
			ps = append(ps, o.Peer)
		}
	}
	return ps
}

// owns says whether a range lies in one piece of a peer.
func owns(p slot.Plan, peer slot.PeerID, r slot.Range) bool {
	i := p.PieceAt(r.Begin)
	return i >= 0 && p.Pieces[i].Owner == peer && r.Begin < r.End && r.End <= p.Pieces[i].Range.End
}

// stateSegment tells the leader what this owner reduced. Between two leaders it waits for the next one's plan.
func (m *Machine) stateSegment(r ReportSegment) {
	s := &m.open.testimony
	again := func(o slot.Segment) bool { return o.Range == r.Segment.Range && o.Root == r.Segment.Root }
	if m.open.last == nil || r.Group != s.group || !owns(*m.open.last, m.cfg.Self, r.Segment.Range) || slices.ContainsFunc(s.stated, again) {
		return
	}
	s.stated = append(slices.Clip(s.stated), r.Segment)
	m.sayStated(r.Segment)
}

// accuse tells the leader that a peer of the group failed this one.
func (m *Machine) accuse(r ReportLost) {
	s := &m.open.testimony
	if m.open.last == nil || r.Group != s.group || slices.Contains(s.lost, r) {
		return
	}
	s.lost = append(slices.Clip(s.lost), r)
	if r.Reason == LostBadValue || r.Reason == LostBadBytes {
		p := m.open.last
		m.event(Event{Kind: EventSuspected, Height: p.Height, Slot: p.Slot, Ballot: p.Ballot, Peer: r.Peer, Detail: sentBad})
	}
	m.sayLost(r)
}

const sentBad = "sent what may not be used"

// sayAgain repeats what was said about the group to the followed leader.
func (m *Machine) sayAgain() {
	for _, s := range m.open.testimony.stated {
		m.sayStated(s)
	}
	for _, r := range m.open.testimony.lost {
		m.sayLost(r)
	}
}

func (m *Machine) sayStated(s slot.Segment) {
	if d := m.open; d.plan != nil {
		m.send(Segment{Ref: d.plan.Ref, Group: d.testimony.group, Inputs: inputsOf(*d.plan, s), Segment: s}, d.leader(d.plan.Ballot).Peer)
	}
}

func (m *Machine) sayLost(r ReportLost) {
	if d := m.open; d.plan != nil {
		m.send(Lost{Ref: d.plan.Ref, Group: d.testimony.group, Peer: r.Peer, Reason: r.Reason, Round: r.Round}, d.leader(d.plan.Ballot).Peer)
	}
}

// accuseOwners reports the owners of segments whose bytes nobody gives: they stated what they do not serve.
func (m *Machine) accuseOwners(draft slot.Draft, missing []slot.Range) {
	d := m.open
	if d.plan == nil || draft.Ref != d.plan.Ref {
		return
	}
	for _, r := range missing {
		for _, p := range d.plan.Offers {
			if p.Peer != m.cfg.Self && owns(*d.plan, p.Peer, r) {
				m.accuse(ReportLost{Group: d.testimony.group, Peer: p.Peer, Reason: LostOutcome})
			}
		}
	}
}
