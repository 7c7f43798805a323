package membership

import (
	"errors"
	"slices"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/chain"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// A group's reduction outlives plans, ballots and leaders: a peer repeats to the next leader what
// it reported to the one before.

// participant takes part in reductions and answers drafts.
type participant struct {
	*facts
	*effects
	*height
	presence *presence
	evidence *evidence
	proofs   *proofs
	motions  *motions
	model    *model
	own      *own
	pledges  *pledges
	acceptor *acceptor
	history  *history

	statements *statements
	audits     *audits
}

// plannedEvents is the number of plans of a term of which events tell. An honest leader makes no
// more than it can lose peers; one that lies could fill the events of all others.
const plannedEvents = 64

// onPlan takes the leader's plan or its revision, and takes part if this peer is in the group. A
// repeated plan asks for reports that its leader may not have received.
func (pa *participant) onPlan(msg wire.Message, body wire.Plan) error {
	p := body.Plan
	if err := pa.acceptor.follow(msg, p.Ballot); err != nil {
		if errors.Is(err, errAhead) {
			pa.acceptor.keepAhead(msg, p.Ballot)
		}
		return err
	}
	d := pa.open
	if d.plan != nil && p.Revision <= d.plan.Revision {
		if p.Revision == d.plan.Revision {
			d.planAt = pa.now
			pa.repeat()
		}
		return nil
	}
	if err := pa.checkPlan(p); err != nil {
		return pa.acceptor.tellRefused(msg, ReasonPlan, err)
	}
	pa.noteOffers(p.Offers, body.Proofs)
	pa.noticeRing(d.last, p)
	d.plan, d.planAt, d.last, d.bytes = &p, pa.now, &p, 0
	if d.draft != nil && d.draft.Ballot < p.Ballot { // that of this very ballot came first
		d.draft = nil
	}
	pa.acceptor.sawLife(p.Revision)
	if d.planned++; d.planned <= plannedEvents {
		pa.event(Event{
			Kind: EventPlanned, Height: p.Height, Slot: p.Slot, Ballot: p.Ballot, Members: livingOf(p), Peer: msg.From,
			Detail: scheduleOf(p),
			Plan:   &p, Links: pa.history.links(p.Offers),
		})
	}
	if g := p.Group(); g != d.groupReports.group {
		d.groupReports = groupReports{group: g, since: pa.now}
	}
	d.groupReports.stated = slices.DeleteFunc(slices.Clone(d.groupReports.stated),
		func(s ReportSegment) bool { return !owns(p, pa.cfg.Self, s.Segment.Range) })
	switch i := p.Place(pa.cfg.Self); {
	case i < 0:
	case p.Gone.Has(i):
		pa.work(WorkReduce{Plan: p}) // it ends
	case pa.own.mine != nil && *pa.own.mine == p.Offers[i] && !pa.model.state.diverged:
		pa.work(WorkReduce{p, pa.chain.Share(p.Offers)})
		pa.repeat()
	default: // the bytes of this offer were lost in a restart
		pa.accuse(ReportLost{Group: d.groupReports.group, Peer: pa.cfg.Self, Reason: wire.LostConnection})
	}
	return nil
}

// scheduleOf returns the name of a schedule other than rotation.
func scheduleOf(p slot.Plan) string {
	if len(p.Ring) > 0 {
		return "ring"
	}
	return ""
}

// noteOffers keeps the offers of a plan with their proofs, as if their contributors had announced
// them here: this peer may be the next to plan, and contributors hardly repeat what a plan
// lists.
func (pa *participant) noteOffers(offers []slot.Offer, proofs []wire.OfferProof) {
	pa.proofs.noteAll(offers, proofs)
	for i := range min(len(offers), len(proofs)) {
		o, by := offers[i], memberKey{offers[i].Peer, proofs[i].Incarnation}
		a := pa.presence.known[by]
		if a != nil && len(proofs[i].Sig) > 0 && o.Slot >= pa.chain.OpenSlot() && !pa.evidence.evicted(by) &&
			(a.offer == nil || o.Seq > a.offer.Seq) {
			a.offer, a.offerAt = &o, pa.now
		}
	}
}

// stateSegment sends a statement of what this owner reduced to the leader, and to the electors that
// audit it. Between two leaders the statement waits for the next one's plan.
func (pa *participant) stateSegment(r ReportSegment) {
	s := &pa.open.groupReports
	again := func(o ReportSegment) bool {
		return o.Segment.Range == r.Segment.Range && o.Segment.Root == r.Segment.Root
	}
	if pa.open.last == nil || r.Group != s.group || !owns(*pa.open.last, pa.cfg.Self, r.Segment.Range) ||
		slices.ContainsFunc(s.stated, again) {
		return
	}
	s.stated = append(slices.Clip(s.stated), r)
	if pa.open.plan != nil {
		leader := pa.planLeader()
		pa.sendStated(r, append(without(pa.audits.auditors(), leader), leader)...)
	}
}

// accuse reports to the leader that a peer of the group failed this one.
func (pa *participant) accuse(r ReportLost) {
	s := &pa.open.groupReports
	if pa.open.last == nil || r.Group != s.group || slices.Contains(s.lost, r) {
		return
	}
	s.lost = append(slices.Clip(s.lost), r)
	if r.Reason == wire.LostBadValue || r.Reason == wire.LostBadBytes {
		pa.reportBad(r.Peer)
	}
	pa.sendLost(r)
	pa.noteShort()
}

// repeat repeats this peer's reports about the group to the followed leader.
func (pa *participant) repeat() {
	for _, s := range pa.open.groupReports.stated {
		pa.sendStated(s, pa.planLeader())
	}
	for _, r := range pa.open.groupReports.lost {
		pa.sendLost(r)
	}
}

// planLeader leads the ballot of the plan that is followed.
func (pa *participant) planLeader() slot.PeerID { return pa.open.leader(pa.open.plan.Ballot).Peer }

// sendStated sends a statement by the plan that is followed.
func (pa *participant) sendStated(s ReportSegment, to ...slot.PeerID) {
	p := pa.open.plan
	pa.send(wire.Segment{
		Ref: p.Ref, Group: pa.open.groupReports.group, Inputs: inputsOf(*p, s.Segment), Segment: s.Segment,
	}, to...)
}

func (pa *participant) sendLost(r ReportLost) {
	if d := pa.open; d.plan != nil {
		pa.send(wire.Lost{Ref: d.plan.Ref, Group: d.groupReports.group, Peer: r.Peer, Reason: r.Reason, Round: r.Round},
			d.leader(d.plan.Ballot).Peer)
	}
}

// accuseOwners reports the owners of segments that no peer serves: they stated bytes that they do
// not serve.
func (pa *participant) accuseOwners(draft slot.Draft, missing []slot.Range) {
	d := pa.open
	if d.plan == nil || draft.Ref != d.plan.Ref {
		return
	}
	for _, r := range missing {
		for _, p := range d.plan.Offers {
			if p.Peer != pa.cfg.Self && owns(*d.plan, p.Peer, r) {
				pa.accuse(ReportLost{Group: d.groupReports.group, Peer: p.Peer, Reason: wire.LostOutcome})
			}
		}
	}
}

// checkPlan refuses plans that could not lead to a valid record.
func (pa *participant) checkPlan(p slot.Plan) error {
	c := pa.chain
	if p.Slot != c.OpenSlot() || p.Fragment != c.Rules().Fragment(p.Slot) || c.Ended() || len(p.Offers) == 0 ||
		len(p.Pieces) == 0 {
		return chain.Invalid("a plan for fragment %d in slot %d with %d offers", p.Fragment, p.Slot, len(p.Offers))
	}
	for i, o := range p.Offers {
		if slot.Find(c.Members(), o.Peer) < 0 && !(p.Gone.Has(i) && c.MayContribute(o.Peer)) {
			return chain.Invalid("a plan with %s, who is no member", o.Peer.Short())
		}
		if err := c.CheckOffer(o); err != nil {
			return err
		}
	}
	if p.Usual != c.UsualWeight() {
		return chain.Invalid("a plan with a usual weight of %d, %d expected", p.Usual, c.UsualWeight())
	}
	if p.Gone != nil && !p.Gone.Fits(len(p.Offers)) {
		return chain.Invalid("a plan whose missing peers are no bitmap over %d offers", len(p.Offers))
	}
	if len(p.Ring) > 0 && !c.Rules().Rings {
		return chain.Invalid("a plan with a ring, which this run has none of")
	}
	if !slot.RingOf(p.Ring, len(p.Offers)) {
		return chain.Invalid("a plan whose ring is no order of its %d offers", len(p.Offers))
	}
	at := uint64(0)
	for _, s := range p.Pieces {
		owner := p.Place(s.Owner)
		if s.Range.Begin != at || s.Range.End <= at || owner < 0 || p.Gone.Has(owner) {
			return chain.Invalid("a plan whose pieces do not join at element %d, or have no owner", at)
		}
		at = s.Range.End
	}
	if elements := c.Rules().Elements(p.Slot); at != elements {
		return chain.Invalid("a plan for %d elements of %d", at, elements)
	}
	if n, others, most := c.Share(p.Offers).Counts(livingSet(p)); n > most {
		return chain.Invalid("a plan with %d newcomers beside %d others; %d are the most", n, others, most)
	}
	return c.CheckOwners(p.Pieces, livingOf(p), p.Living())
}

// progressed counts bytes that arrive here as a sign of life, because the reduction makes progress.
func (pa *participant) progressed(bytes uint64) {
	if d := pa.open; bytes > d.bytes {
		d.bytes, d.progressAt = bytes, pa.now
		if d.plan != nil {
			pa.acceptor.sawLife(d.plan.Revision)
		}
		if d.lead != nil {
			d.lead.progressAt = pa.now
		}
	}
}

// reduceFailed reports that this peer cannot take part. The leader revises the plan without it.
func (pa *participant) reduceFailed(p slot.Plan) {
	if p.Place(pa.cfg.Self) >= 0 {
		pa.accuse(ReportLost{Group: p.Group(), Peer: pa.cfg.Self, Reason: wire.LostConnection})
	}
}

// noticeRing notes how rings fare. Each new circle gets the full time to make progress, and a ring
// that a leader gave up makes this peer rest from rings.
func (pa *participant) noticeRing(before *slot.Plan, p slot.Plan) {
	if before == nil || before.Round() != p.Round() {
		pa.open.progressAt = pa.now
	}
	if before != nil && before.Slot == p.Slot && len(before.Ring) > 0 && len(p.Ring) == 0 {
		pa.history.restRings(p.Slot)
	}
}
