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
	if c.height() == 0 || c.ended() || c.tip().Slot == 0 && len(c.electorate()) < c.rules.StartPeers {
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

// mayStillOffer says whether a member without an offer is worth waiting for.
func (m *Machine) mayStillOffer(e slot.Member, offers []slot.Offer) bool {
	if slices.ContainsFunc(offers, func(o slot.Offer) bool { return o.Peer == e.Peer }) || !m.around(ofMember(e)) {
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

// graceEnds is when the window closes. It opens once most contributors have offered, lasts GraceFactor times the recent spread
// of finishing times, and no longer than one straggler may hold up a slot; fewer than most wait four times as long for more.
func (m *Machine) graceEnds(offers []slot.Offer, contributors int) time.Duration {
	t := m.cfg.Timing
	at := m.offerTimes(offers)
	most := contributors/2 + 1
	if len(at) < most {
		return at[0] + 4*t.Straggler
	}
	spread := time.Duration(t.GraceFactor * float64(slices.Max(m.spreads[:])))
	return at[most-1] + min(max(t.MinGrace, spread), max(t.Straggler, t.MinGrace))
}

// offerTimes is when the offers came in, sorted.
func (m *Machine) offerTimes(offers []slot.Offer) []time.Duration {
	var at []time.Duration
	for _, e := range m.chain.electorate() {
		if slices.ContainsFunc(offers, func(o slot.Offer) bool { return o.Peer == e.Peer }) {
			at = append(at, m.presence.known[ofMember(e)].offerAt)
		}
	}
	slices.Sort(at)
	return at
}

// eligible are the offers that are not left out of plans. A left-out peer comes back with a fresh offer.
func (l *leading) eligible(offers []slot.Offer) []slot.Offer {
	return slices.DeleteFunc(slices.Clone(offers), func(o slot.Offer) bool {
		seq, out := l.excluded[o.Peer]
		return out && o.Seq <= seq
	})
}

// startPlan opens the reduction of the open slot.
func (m *Machine) startPlan() {
	m.open.lead.revised = 0
	m.revise(m.open.lead.eligible(m.offers()))
}

// revise makes a plan, or replaces the one that runs in the same ballot (HOLES H17). The reduction starts over.
func (m *Machine) revise(offers []slot.Offer) {
	l := m.open.lead
	l.plan, l.draft, l.reports, l.settleAt = nil, nil, nil, never
	if len(offers) < max(1, m.chain.rules.MinPeers) || l.revised > len(m.chain.electorate())+4 {
		m.giveUpPlan()
		return
	}
	l.revision++
	l.revised++
	l.plan = &slot.Plan{
		Ref: l.ref, Revision: l.revision, Slot: m.chain.openSlot(), Offers: offers, Pieces: m.cfg.Plan(0, offers),
	}
	l.segments = map[uint64]slot.Segment{}
	m.sendPlan()
}

// giveUpPlan waits, longer each time, before peers that were only out of reach are tried again.
func (m *Machine) giveUpPlan() {
	l := m.open.lead
	l.holdOff = m.now + m.cfg.Timing.Retry<<min(l.failures, 5)
	l.failures++
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

// onSegment takes an owner's statement. The newest of a range counts until the draft; one that differs after that means that
// its bytes are not to be had any more (the owner restarted), and the plan is revised.
func (m *Machine) onSegment(msg Message, s Segment) error {
	l := m.open.lead
	if l == nil || l.plan == nil || s.Ref != l.ref || s.Revision != l.plan.Revision {
		return ErrStale
	}
	if !s.Contributors.Fits(len(l.plan.Offers)) || s.Contributors.Count() == 0 {
		return invalid("a contributor set of %d bytes over %d offers", len(s.Contributors), len(l.plan.Offers))
	}
	owned := func(p slot.Piece) bool {
		return p.Owner == msg.From && p.Range.Begin <= s.Range.Begin && s.Range.Begin < s.Range.End && s.Range.End <= p.Range.End
	}
	if !slices.ContainsFunc(l.plan.Pieces, owned) {
		return ErrSender
	}
	before, had := l.segments[s.Range.Begin]
	switch {
	case !had && l.draft == nil && len(l.segments) < slot.MaxSegments, had && l.draft == nil:
		l.segments[s.Range.Begin] = s.Segment
	case had && (before.Root != s.Root || before.Range != s.Range):
		m.revise(l.plan.Offers)
	}
	return nil
}

// closePlan drafts the outcome once the statements cover the fragment, or revises the plan without those who failed.
func (m *Machine) closePlan() {
	l := m.open.lead
	if m.fragile() {
		m.draftMembers()
		return
	}
	if m.reviseIfLost() {
		return
	}
	var segments []slot.Segment
	for at := uint64(0); at < m.chain.rules.Elements; {
		s, ok := l.segments[at]
		if !ok {
			return
		}
		segments, at = append(segments, s), s.Range.End
	}
	m.draftStep(segments)
}
