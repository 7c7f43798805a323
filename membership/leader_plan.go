package membership

import (
	"slices"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// offers lists the valid standing offers for the open slot, sorted by peer.
func (m *Machine) offers() []slot.Offer {
	var os []slot.Offer
	for _, e := range m.chain.electorate() {
		if a := m.presence.known[ofMember(e)]; a != nil && a.offer != nil && m.chain.checkOffer(*a.offer) == nil {
			os = append(os, *a.offer)
		}
	}
	return os
}

// planDue says whether the open slot's reduction should start: everybody who contributes has offered, or the grace window for
// those who have not is over. Followers ask the same question to know whether the leader owes a plan.
func (m *Machine) planDue() bool {
	c := m.chain
	if !c.takesStep() {
		return false
	}
	offers := m.offers()
	if l := m.open.lead; l != nil {
		offers = l.eligible(offers)
	}
	if len(offers) < max(1, c.rules.MinPeers) {
		return false
	}
	waiting := 0
	for _, e := range c.electorate() {
		if m.mayStillOffer(e, offers) {
			waiting++
		}
	}
	return waiting == 0 || m.now >= m.graceEnds(offers, len(offers)+waiting)
}

// cameDuring says whether a peer has become a member after the open slot had begun. It finishes its inner steps later than the others,
// and no joiner holds up a slot; with a large swarm's comings and goings, each slot would wait for somebody. Who was a member when the
// slot began, and was dropped and listed again since, began with the others.
func (m *Machine) cameDuring(p slot.PeerID) bool {
	c := m.chain
	i := slot.Find(c.electorate(), p)
	if i < 0 || c.stepHeight == 0 {
		return false
	}
	_, began := findMember(c.at(c.stepHeight).Members, p, c.electorate()[i].Incarnation)
	return !began
}

// mayStillOffer says whether a member without an offer is worth waiting for.
func (m *Machine) mayStillOffer(e slot.Member, offers []slot.Offer) bool {
	if hasOffer(offers, e.Peer) || !m.around(ofMember(e)) {
		return false
	}
	settled := func(o slot.Offer) bool { return !m.cameDuring(o.Peer) }
	if m.cameDuring(e.Peer) && slices.ContainsFunc(offers, settled) {
		return false
	}
	if l := m.open.lead; l != nil {
		if _, out := l.excluded[e.Peer]; out {
			return false
		}
	}
	if ofMember(e) == m.presence.self {
		return m.contributes && !m.leaving && !m.state.diverged
	}
	a := m.presence.known[ofMember(e)]
	return !a.leaving && (a.alive == nil || a.alive.Contributes)
}

// offerTimes is when the offers came in, sorted.
func (m *Machine) offerTimes(offers []slot.Offer) []time.Duration {
	var at []time.Duration
	for _, e := range m.chain.electorate() {
		if hasOffer(offers, e.Peer) {
			at = append(at, m.presence.known[ofMember(e)].offerAt)
		}
	}
	slices.Sort(at)
	return at
}

// hasOffer says whether one of the offers, sorted by peer, is of p.
func hasOffer(offers []slot.Offer, p slot.PeerID) bool {
	_, has := slices.BinarySearchFunc(offers, p, func(o slot.Offer, p slot.PeerID) int { return cmpPeer(o.Peer, p) })
	return has
}

// eligible are the offers that are not left out of plans. A left-out peer comes back with a fresh offer.
func (l *leading) eligible(offers []slot.Offer) []slot.Offer {
	return slices.DeleteFunc(slices.Clone(offers), func(o slot.Offer) bool {
		seq, out := l.excluded[o.Peer]
		return out && o.Seq <= seq
	})
}

// startPlan opens the reduction of the open slot by a new group.
func (m *Machine) startPlan() {
	l := m.open.lead
	l.revised, l.reports = 0, nil
	s := m.chain.openSlot()
	m.issue(slot.Plan{
		Opened: slot.Opening{Ref: l.ref, Revision: l.revision + 1}, Slot: s, Fragment: m.chain.rules.fragment(s), Offers: l.eligible(m.offers()),
	})
}

// continuePlan takes up the group that was at work when its leader was lost, or when a change of members came between: engines
// go on where they stand, and owners say again what they have finished.
func (m *Machine) continuePlan() {
	l, p := m.open.lead, *m.open.last
	if l.group != p.Group() {
		l.reports = nil
	}
	_, reports := ringWords(p, l.reports)
	m.issue(withGone(p, m.fallen(p, reports)))
}

// withGone is a plan less some peers.
func withGone(p slot.Plan, gone []slot.PeerID) slot.Plan {
	g := slot.NewBitmap(len(p.Offers))
	copy(g, p.Gone)
	for _, peer := range gone {
		g.Set(p.Place(peer))
	}
	p.Gone = g
	return p
}

// issue makes a plan or a revision of one the plan that runs (HOLES H17). Statements about pieces that stay where they are
// stand.
func (m *Machine) issue(p slot.Plan) {
	l := m.open.lead
	p.Ref = l.ref
	before := p
	if p.Living() > 0 {
		p.Pieces, p.Ring = m.cfg.Plan(p, m.links(p.Offers))
		if len(before.Ring) > 0 && len(p.Ring) == 0 { // what is left of it is too much for a ring
			m.giveUpRing(before)
			return
		}
	}
	l.plan, l.draft, l.group = nil, nil, p.Group()
	if p.Living() < max(1, m.chain.rules.MinPeers) || l.revised > len(m.chain.electorate())+4 {
		m.giveUpPlan()
		return
	}
	l.revision++
	l.revised++
	p.Revision = l.revision
	kept := map[uint64]slot.Segment{}
	for at, s := range l.segments {
		was, is := before.PieceAt(at), p.PieceAt(at)
		if was >= 0 && is >= 0 && before.Pieces[was] == p.Pieces[is] && s.Range.End <= p.Pieces[is].Range.End {
			kept[at] = s
		}
	}
	l.plan, l.segments, l.narrow, l.stirred = &p, kept, map[slot.PeerID]time.Duration{}, m.now
	m.noteOwing()
	m.sendPlan()
}

// giveUpPlan waits, longer each time, before peers that were only out of reach are tried again, in another group.
func (m *Machine) giveUpPlan() {
	l := m.open.lead
	l.plan, l.givenUp, l.segments = nil, l.group, nil
	l.holdOff = m.now + m.cfg.Timing.Retry<<min(l.failures, 5)
	l.failures++
	l.forgive()
}

// forgive lets those who were only out of reach into the next group.
func (l *leading) forgive() {
	for p := range l.excluded {
		if _, bad := l.banned[p]; !bad {
			delete(l.excluded, p)
		}
	}
}

func (m *Machine) sendPlan() {
	l := m.open.lead
	l.sentAt = m.now
	m.send(Plan{*l.plan}, peersOf(m.chain.electorate())...)
}

// onSegment takes an owner's statement, whichever revision it knew: what counts is that the range is its own by the newest. An
// owner that contradicts itself is as good as gone: nobody knows which bytes are to be had. One whose range has too few
// contributors may not have heard yet who is gone, and is given time.
func (m *Machine) onSegment(msg Message, s Segment) error {
	l := m.open.lead
	if l == nil || l.plan == nil || s.Ref != l.ref || s.Group != l.group {
		return ErrStale
	}
	if !s.Contributors.Fits(len(l.plan.Offers)) || s.Contributors.Count() == 0 {
		return invalid("a contributor set of %d bytes over %d offers", len(s.Contributors), len(l.plan.Offers))
	}
	if !owns(*l.plan, msg.From, s.Range) {
		return ErrSender
	}
	if !l.plan.Wide(s.Contributors.Count(), m.chain.rules.MinPeers) {
		if _, ok := l.narrow[msg.From]; !ok {
			l.narrow[msg.From] = m.now
		}
		return invalid("a range with %d contributors of %d", s.Contributors.Count(), l.plan.Living())
	}
	if s.Inputs != inputsOf(*l.plan, s.Segment) {
		return invalid("a range of other inputs than it names")
	}
	switch before, had := l.segments[s.Range.Begin]; {
	case had && before.Root == s.Root && before.Range == s.Range:
	case had || m.statedBy(msg.From) >= slot.MaxRanges(len(l.plan.Offers)):
		m.noteReport(report{by: msg.From, of: msg.From, at: m.now})
	default:
		l.segments[s.Range.Begin], l.stirred = s.Segment, m.now
		m.noteOwing()
	}
	return nil
}

// statedBy counts an owner's statements.
func (m *Machine) statedBy(owner slot.PeerID) (n int) {
	for _, s := range m.open.lead.segments {
		if owns(*m.open.lead.plan, owner, s.Range) {
			n++
		}
	}
	return n
}

// closePlan drafts the outcome once the statements cover the fragment, or revises the plan without those who failed.
func (m *Machine) closePlan() {
	l := m.open.lead
	if m.fragile() {
		m.draftMembers()
		return
	}
	if m.reviseIfLost(l.reports) {
		return
	}
	if segments, ok := l.stated(slot.Range{End: m.chain.rules.elements(l.plan.Slot)}); ok {
		m.draftStep(segments)
		return
	}
	if m.ringHangs() {
		m.giveUpRing(*l.plan)
		return
	}
	if out := m.silent(); len(out) > 0 {
		l.hushed = true
		m.leaveOut(out)
	}
}

// stated are the statements that cover a range, in order; ok is false while there is a gap.
func (l *leading) stated(r slot.Range) (segments []slot.Segment, ok bool) {
	for at := r.Begin; at < r.End; {
		s, ok := l.segments[at]
		if !ok {
			return nil, false
		}
		segments, at = append(segments, s), s.Range.End
	}
	return segments, true
}
