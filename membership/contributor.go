package membership

import (
	"slices"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// offer announces this peer's contribution; one that comes before this peer is a member waits until it is. The sequence number
// is on disk first: no restart uses one twice (HOLES H24).
func (m *Machine) offer(r ReportOffer) {
	c := m.chain
	m.waiting = nil
	if m.state.diverged || m.left || r.Slot != c.openSlot() || c.ended() {
		return
	}
	if !m.elector() {
		m.waiting = &r
		return
	}
	o := slot.Offer{
		Peer: m.cfg.Self, Slot: r.Slot, Seq: max(m.offerSeq, c.spent[m.cfg.Self].seq) + 1, Base: r.Base,
		Weight: max(r.Weight, 1), Root: r.Root, Steps: r.Steps, StepTime: r.StepTime,
	}
	if c.rules.MaxWeight > 0 {
		o.Weight = min(o.Weight, c.rules.MaxWeight)
	}
	if c.checkOffer(o) != nil {
		return
	}
	m.offerSeq = o.Seq
	m.persist(EntryOffer{o.Seq})
	m.mine = &o
	m.sendOffer()
}

func (m *Machine) sendOffer() {
	m.mineAt = m.now
	m.gossip(Offer{*m.mine}, m.cfg.Self)
}

// repeatOffer says the standing offer again, unless the leader plans with it: leaders change, and forget.
func (m *Machine) repeatOffer() {
	if m.mine == nil || m.now-m.mineAt < m.cfg.Timing.Retry {
		return
	}
	if p := m.open.plan; p != nil && slices.Contains(p.Offers, *m.mine) {
		return
	}
	m.sendOffer()
}

// spendOffer looks after the own offer once a record is certified. Listed, it is spent, whole; not listed and not too stale, it
// is offered again for the next slot.
func (m *Machine) spendOffer() {
	if m.waiting != nil {
		m.offer(*m.waiting)
	}
	o := m.mine
	if o == nil || o.Slot == m.chain.openSlot() && o.Seq > m.chain.spent[o.Peer].seq {
		return
	}
	m.mine = nil
	if o.Seq > m.chain.spent[o.Peer].seq {
		m.offer(ReportOffer{Slot: m.chain.openSlot(), Base: o.Base, Weight: o.Weight, Root: o.Root, Steps: o.Steps, StepTime: o.StepTime})
	}
}

// onOffer keeps each peer's offer of the highest sequence number.
func (m *Machine) onOffer(msg Message, o Offer) error {
	a := m.presence.known[who{msg.From, msg.Incarnation}]
	switch {
	case a == nil || o.Peer != msg.From || m.unwelcome(a.who):
		return ErrSender
	case o.Slot < m.chain.openSlot() || a.offer != nil && o.Seq < a.offer.Seq:
		return ErrStale
	case a.offer == nil || o.Seq > a.offer.Seq:
		a.offer, a.offerAt = &o.Offer, m.now
	}
	return nil
}

// checkPlan refuses plans that could not lead to a valid record.
func (m *Machine) checkPlan(p slot.Plan) error {
	c := m.chain
	if p.Slot != c.openSlot() || p.Fragment != c.rules.fragment(p.Slot) || c.ended() || len(p.Offers) == 0 || len(p.Pieces) == 0 {
		return invalid("a plan for fragment %d in slot %d with %d offers", p.Fragment, p.Slot, len(p.Offers))
	}
	for i, o := range p.Offers {
		if slot.Find(c.electorate(), o.Peer) < 0 && !(p.Gone.Has(i) && c.mayContribute(o.Peer)) {
			return invalid("a plan with %s, who is no member", o.Peer.Short())
		}
		if err := c.checkOffer(o); err != nil {
			return err
		}
	}
	if p.Gone != nil && !p.Gone.Fits(len(p.Offers)) {
		return invalid("a plan whose missing peers are no bitmap over %d offers", len(p.Offers))
	}
	if len(p.Ring) > 0 && !c.rules.Rings {
		return invalid("a plan with a ring, which this run has none of")
	}
	if !slot.RingOf(p.Ring, len(p.Offers)) {
		return invalid("a plan whose ring is no order of its %d offers", len(p.Offers))
	}
	at := uint64(0)
	for _, s := range p.Pieces {
		owner := p.Place(s.Owner)
		if s.Range.Begin != at || s.Range.End <= at || owner < 0 || p.Gone.Has(owner) {
			return invalid("a plan whose pieces do not join at element %d, or have no owner", at)
		}
		at = s.Range.End
	}
	if elements := c.rules.elements(p.Slot); at != elements {
		return invalid("a plan for %d elements of %d", at, elements)
	}
	return nil
}

// onDraft keeps the leader's draft; answerDraft says HAVE once it is true. Newcomers answer drafts too.
func (m *Machine) onDraft(msg Message, dr slot.Draft) error {
	if err := m.follow(msg, dr.Ballot); err != nil {
		return err
	}
	d := m.open
	if d.draft != nil && dr.Revision < d.draft.Revision || d.plan != nil && dr.Revision < d.plan.Revision {
		return ErrStale
	}
	switch {
	case dr.Kind.KeepsSlot() && len(dr.Contributions) == 0 && len(dr.Segments) == 0:
		if err := m.checkDraftAccess(msg.From, dr); err != nil {
			return err
		}
	case dr.Kind == slot.Step && dr.Slot == m.chain.openSlot() && !m.chain.ended():
		if err := m.chain.checkOutcome(dr.Fragment, dr.Contributions, dr.Segments); err != nil {
			return err
		}
	default:
		return invalid("a draft of kind %s for slot %d", dr.Kind, dr.Slot)
	}
	if d.draft == nil || dr.Revision > d.draft.Revision {
		m.sawLife(dr.Revision)
		if dr.Kind.KeepsSlot() {
			d.drafts, d.draftAt = d.drafts+1, m.now
		}
		if dr.Kind == slot.Access {
			d.accessAt = m.now
		}
	}
	d.draft, d.haveSent = &dr, false
	return nil
}

// answerDraft says HAVE: the outcome is on disk here, and so is the state after the record before (HOLES H10, H12).
func (m *Machine) answerDraft() {
	d := m.open
	if d.draft == nil || d.haveSent || !m.atTip() || !m.hold(*d.draft) {
		return
	}
	d.haveSent = true
	m.send(Have{Ref: d.draft.Ref, Outcome: d.draft.Outcome(), StateRoot: m.state.root}, d.leader(d.draft.Ballot).Peer)
}

// hold says whether the outcome of a draft, or the secret that it brings, is on disk, and has it fetched if not: from the peers named, the
// contributors, the leader, or whoever else is a member.
func (m *Machine) hold(dr slot.Draft, from ...slot.PeerID) bool {
	d, outcome := m.open, dr.Outcome()
	if outcome.IsZero() || d.outcomes[outcome] {
		return true
	}
	if d.fetching != outcome || m.now-d.fetchedAt >= 4*m.cfg.Timing.Retry {
		d.fetching, d.fetchedAt = outcome, m.now
		m.work(WorkHold{Draft: dr, From: m.sources(from, offerers(dr.Contributions), []slot.PeerID{d.leader(dr.Ballot).Peer})})
	}
	return false
}

// maxSources bounds whom a worker is told to ask.
const maxSources = 16

// sources lists peers to fetch from, the lists' in their order, then the other members that are heard; never this one.
func (m *Machine) sources(lists ...[]slot.PeerID) []slot.PeerID {
	var heard []slot.PeerID
	for _, e := range m.chain.electorate() {
		if m.around(ofMember(e)) {
			heard = append(heard, e.Peer)
		}
	}
	var out []slot.PeerID
	for _, p := range slices.Concat(append(lists, heard)...) {
		if p != m.cfg.Self && !slices.Contains(out, p) && len(out) < maxSources {
			out = append(out, p)
		}
	}
	return out
}

// held notes that an outcome is on disk. Outcomes are named by their bytes: the ballot does not matter.
func (m *Machine) held(r ReportHeld) {
	d := m.open
	if r.Height != d.ref.Height || r.Prev != d.ref.Prev {
		return
	}
	d.outcomes[r.Outcome] = true
	if d.fetching == r.Outcome {
		d.fetching, d.fetchedAt = slot.Root{}, never
	}
}
