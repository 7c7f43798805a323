package membership

import (
	"slices"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/chain"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// planner divides the open slot's reduction among its peers, and revises the plan when some are
// lost.
type planner struct {
	*facts
	*effects
	*height
	presence *presence
	proofs   *proofs
	model    *model
	own      *own
	acceptor *acceptor
	history  *history
	roster   *roster
	hiders   *hiders
}

// planDue says whether the open slot's reduction should start: every member that contributes has
// offered, or the grace window for the others is over. Followers ask the same question to know
// whether the leader owes a plan.
func (pn *planner) planDue() bool {
	c := pn.chain
	if !c.TakesStep() {
		return false
	}
	offers := pn.offers()
	if pn.tooFew(offers) {
		return false
	}
	var waiting []slot.Member
	for _, e := range c.Members() {
		if pn.mayStillOffer(e, offers) {
			waiting = append(waiting, e)
		}
	}
	return len(waiting) == 0 || pn.now >= pn.windowEnds(offers, waiting)
}

// windowEnds is when those that have not offered have had their time. What others offer costs them
// nothing, so it ends no wait for electors that contributed lately.
func (pn *planner) windowEnds(offers []slot.Offer, waiting []slot.Member) time.Duration {
	c, n := pn.chain, len(offers)+pn.chain.Awaited(len(offers), waiting)
	if c.FewNewcomers() {
		lately := c.Lately()
		late := chain.CountMembers(waiting, func(e slot.Member) bool { return contains(lately, e.Peer) })
		known := slices.DeleteFunc(slices.Clone(offers), func(o slot.Offer) bool { return !contains(lately, o.Peer) })
		switch {
		case late > 0 && len(known) == 0:
			return pn.history.loneEnds(offers, late)
		case late > 0:
			offers, n = known, len(known)+late
		}
	}
	return pn.history.graceEnds(offers, n)
}

func contains(set map[slot.PeerID]struct{}, p slot.PeerID) bool { _, is := set[p]; return is }

// offers lists the standing offers that a plan lists.
func (pn *planner) offers() []slot.Offer {
	offers := pn.eligible()
	shown := pn.withoutHiders(offers)
	if pn.tooFew(shown) {
		return offers
	}
	return shown
}

func (pn *planner) tooFew(offers []slot.Offer) bool {
	return len(offers) < max(1, pn.chain.Rules().MinPeers)
}

// withoutHiders lists those of the offers whose members this peer does not leave out for what they
// did not show.
func (pn *planner) withoutHiders(offers []slot.Offer) []slot.Offer {
	out := pn.hiders.out(pn.open.ballot, offers)
	return slices.DeleteFunc(slices.Clone(offers), func(o slot.Offer) bool { return slices.Contains(out, o.Peer) })
}

// standing lists the offers to the open slot that this peer can prove: nobody takes a plan with
// another.
func (pn *planner) standing() []slot.Offer {
	return slices.DeleteFunc(pn.presence.offers(), func(o slot.Offer) bool {
		return !pn.proofs.has([]slot.Offer{o})
	})
}

// eligible lists the standing offers that a plan may list.
func (pn *planner) eligible() []slot.Offer { return pn.mayReturn(pn.standing()) }

// known lists the standing offers without those of members that this peer leaves out for what they
// did in slots before: those that hide in this one keep a newcomer's place.
func (pn *planner) known() []slot.Offer {
	standing := pn.standing()
	out := pn.hiders.out(pn.open.ballot, standing)
	return slices.DeleteFunc(standing, func(o slot.Offer) bool {
		return slices.Contains(out, o.Peer) && len(pn.open.hidden[o]) == 0
	})
}

// mayReturn lists those of the offers that this leader has not left out of its groups, or not for
// good. Without those that are left out for good there may be too few.
func (pn *planner) mayReturn(offers []slot.Offer) []slot.Offer {
	l := pn.open.lead
	if l == nil {
		return offers
	}
	once := l.eligible(offers, 1)
	if !pn.chain.Rules().Byzantine || pn.tooFew(once) {
		return l.eligible(offers, maxProven)
	}
	return once
}

// withinShare lists those of some standing offers that a new group takes. A newcomer that was in a
// group of this slot keeps its place, and uses it up where it was left out: else the next one took
// it, and with as many names as there are the slot would be reduced again and again.
func (pn *planner) withinShare(standing []slot.Offer) []slot.Offer {
	var before []slot.PeerID
	for _, o := range standing {
		if _, listed := pn.open.lead.listed[o.Peer]; listed || len(pn.open.hidden[o]) > 0 {
			before = append(before, o.Peer)
		}
	}
	// without those that are left out, fewer others may be left
	list := pn.withoutHiders(pn.chain.WithinShare(standing, before...))
	list = pn.chain.WithinShare(pn.mayReturn(list), before...)
	if !pn.open.lead.fewest {
		return list
	}
	some := pn.chain.Share(list).Fewest(livingSet(slot.Plan{Offers: list}))
	return usedOffers(slot.Plan{Offers: list}, some)
}

// listed are the offers of a new group.
func (pn *planner) listed() []slot.Offer {
	if list := pn.withinShare(pn.known()); !pn.tooFew(list) {
		return list
	}
	return pn.chain.WithinShare(pn.offers())
}

// mayStillOffer says whether a member without an offer is worth waiting for.
func (pn *planner) mayStillOffer(e slot.Member, offers []slot.Offer) bool {
	if hasOffer(offers, e.Peer) || !pn.presence.around(ofMember(e)) {
		return false
	}
	settled := func(o slot.Offer) bool { return !pn.cameDuring(o.Peer) }
	if pn.cameDuring(e.Peer) && slices.ContainsFunc(offers, settled) {
		return false
	}
	if slices.Contains(pn.hiders.out(pn.open.ballot, pn.standing()), e.Peer) {
		return false
	}
	if l := pn.open.lead; l != nil {
		if _, out := l.excluded[e.Peer]; out {
			return false
		}
	}
	if ofMember(e) == pn.self {
		return pn.own.contributes && !pn.own.leaving && !pn.model.state.diverged
	}
	a := pn.presence.known[ofMember(e)]
	return !a.leaving && (a.alive == nil || a.alive.Contributes)
}

// exclusion says how a peer was left out of the groups of a leader.
type exclusion struct {
	seq   uint64 // of its offer, the last time
	times int
}

// exclude leaves the contributor of an offer out of further groups.
func (l *planning) exclude(o slot.Offer) {
	e := l.excluded[o.Peer]
	if e.times == 0 || o.Seq > e.seq {
		l.excluded[o.Peer] = exclusion{o.Seq, e.times + 1}
	}
}

// eligible are the offers that are not left out of plans. A left-out peer comes back with a fresh
// offer, so many times: each time it may have all that was reduced thrown away.
func (l *planning) eligible(offers []slot.Offer, back int) []slot.Offer {
	return slices.DeleteFunc(slices.Clone(offers), func(o slot.Offer) bool {
		e, out := l.excluded[o.Peer]
		return out && (o.Seq <= e.seq || e.times > back)
	})
}

// startPlan opens the reduction of the open slot by a new group.
func (pn *planner) startPlan() {
	l, listed := pn.open.lead, pn.listed()
	l.attempts, l.reports = 0, nil
	if l.groups++; l.groups > mostGroups && pn.resign("too many groups failed in the reduction") {
		return
	}
	s := pn.chain.OpenSlot()
	pn.issue(slot.Plan{
		Opened: slot.Opening{Ref: l.ref, Revision: l.revision + 1}, Slot: s, Fragment: pn.chain.Rules().Fragment(s),
		Offers: listed, Usual: pn.chain.UsualWeight(),
	})
}

// mostGroups is how many groups a leader tries in its term, where members may lie: a member that
// fails in one may come back once.
const mostGroups = 3

// continuePlan takes up the group that was at work when its leader was lost, or when a change of
// members came between. Its engines go on where they stand, and owners repeat their statements.
func (pn *planner) continuePlan() {
	l, p := pn.open.lead, *pn.open.last
	if l.group != p.Group() {
		l.reports = nil
		l.groups++
	}
	_, reports := ringReports(p, l.reports)
	pn.issue(withGone(p, pn.fallen(p, reports)))
}

// issue makes a plan or a revision of one the plan that runs (HOLES H17). Statements about pieces
// that stay where they are stand. Where outcomes are audited, drafts show what owners have signed
// in their ballot: then owners repeat those of an earlier one.
func (pn *planner) issue(p slot.Plan) {
	l := pn.open.lead
	stand := p.Ref == l.ref || !pn.chain.Rules().Audits()
	p.Ref = l.ref
	l.share = pn.chain.Share(p.Offers)
	p = pn.withFewNewcomers(p)
	if pn.lacks(p) && pn.resign("too few electors that contributed lately can take part") {
		return
	}
	before := p
	if p.Living() > 0 {
		p.Pieces, p.Ring = pn.cfg.Plan(p, pn.history.links(p.Offers))
		if len(before.Ring) > 0 && len(p.Ring) == 0 { // too many of its peers are gone for a ring
			pn.giveUpRing(before)
			return
		}
	}
	l.plan, l.draft, l.group = nil, nil, p.Group()
	if p.Living() < max(1, pn.chain.Rules().MinPeers) || l.attempts > len(pn.chain.Members())+4 {
		pn.giveUpPlan()
		return
	}
	l.revision++
	l.attempts++
	p.Revision = l.revision
	kept := map[uint64]stated{}
	for at, s := range l.segments {
		was, is := before.PieceAt(at), p.PieceAt(at)
		if stand && was >= 0 && is >= 0 && before.Pieces[was] == p.Pieces[is] && s.Range.End <= p.Pieces[is].Range.End {
			kept[at] = s
		}
	}
	l.plan, l.segments, l.statesTooFew, l.progressAt = &p, kept, map[slot.PeerID]time.Duration{}, pn.now
	for _, o := range p.Offers {
		l.listed[o.Peer] = struct{}{}
	}
	pn.noteOwing()
	pn.sendPlan()
}

// withFewNewcomers marks as gone the newcomers of a group that are too many beside the others that
// are left, those last that own pieces. Owners that lose a peer leave out the same ones before the
// revision reaches them: what is at work would else be without those and these.
func (pn *planner) withFewNewcomers(p slot.Plan) slot.Plan {
	l, living := pn.open.lead, livingSet(p)
	stay := l.share.Within(living, p.OwnsPiece)
	var out []slot.PeerID
	for i, o := range p.Offers {
		if living.Has(i) && !stay.Has(i) {
			out = append(out, o.Peer)
			l.crowded[o.Peer] = struct{}{}
		}
	}
	if len(out) == 0 {
		return p
	}
	return withGone(p, out)
}

// beginWithFewest opens a new group with no more newcomers than a slot must have, where an owner
// has reduced with too many: it does not follow the rules. Nobody reduces what it has stated again,
// and no draft may have it. With so few newcomers it happens once a term.
func (pn *planner) beginWithFewest(owner slot.PeerID) {
	l := pn.open.lead
	pn.reportPeer(EventSuspected, ReasonManyNewcomers, owner,
		"reduced with more newcomers than newcomer_share lets in beside the others: the slot is reduced anew with "+
			"fewer newcomers")
	l.fewest, l.givenUp = true, l.group
	l.plan, l.segments = nil, nil
	pn.startPlan()
}

// giveUpPlan gives up the attempt, and the group that was at work: one that is too small to begin
// has not taken its place. Each time the leader waits longer before it tries peers that were only
// out of reach again, in another group.
func (pn *planner) giveUpPlan() {
	l := pn.open.lead
	l.plan, l.segments, l.groups = nil, nil, 0
	if last := pn.open.last; last != nil {
		l.givenUp = last.Group()
	}
	l.holdOff = pn.now + pn.cfg.Timing.Retry<<min(l.failures, 5)
	l.failures++
	l.forgive()
}

// forgive admits peers that were only out of reach to the next group.
func (l *planning) forgive() {
	for p := range l.excluded {
		if _, bad := l.banned[p]; !bad {
			delete(l.excluded, p)
		}
	}
}

func (pn *planner) sendPlan() {
	l := pn.open.lead
	l.sentAt = pn.now
	pn.send(wire.Plan{Plan: *l.plan, Proofs: pn.proofs.list(l.plan.Offers)}, peersOf(pn.chain.Members())...)
}

// onSegment takes an owner's statement, whichever revision it knew: what counts is that the range
// is its own by the newest. An owner that contradicts itself is treated as gone, since nobody knows
// which bytes it serves. An owner that states a range of too few contributors may not know yet
// which peers are gone, and gets time.
func (pn *planner) onSegment(msg wire.Message, s wire.Segment) error {
	l := pn.open.lead
	if l == nil || l.plan == nil || s.Ref != l.ref || s.Group != l.group {
		return ErrStale
	}
	if err := checkStatement(*l.plan, msg.From, s); err != nil {
		return err
	}
	// one that lacks electors which no step may is no use either, if the group has them
	lacks := !pn.lacks(*l.plan) && !pn.chain.Inclusion(l.ref.Ballot).Holds(l.plan.Offers, s.Contributors)
	if lacks || !l.plan.Wide(s.Contributors.Count(), pn.chain.Rules().MinPeers) {
		if _, ok := l.statesTooFew[msg.From]; !ok {
			l.statesTooFew[msg.From] = pn.now
		}
		return chain.Invalid("a range with %d contributors of %d", s.Contributors.Count(), l.plan.Living())
	}
	if n, others, most := l.share.Counts(s.Contributors); n > most {
		pn.beginWithFewest(msg.From)
		return chain.Invalid("a range with %d newcomers beside %d others; %d are the most", n, others, most)
	}
	switch before, had := l.segments[s.Range.Begin]; {
	case had && before.Root == s.Root && before.Range == s.Range:
	case had || pn.statedBy(msg.From) >= slot.MaxRanges(len(l.plan.Offers)):
		pn.noteReport(report{by: msg.From, of: msg.From, at: pn.now})
	default:
		l.segments[s.Range.Begin], l.progressAt = stated{s.Segment, wire.SignedSegment{
			Peer: msg.From, Incarnation: msg.Incarnation, Contributors: s.Contributors, Sig: msg.Sig,
		}}, pn.now
		if pn.uncheckable(*l.plan, l.segments) {
			pn.startPlan()
			return nil
		}
		pn.noteOwing()
	}
	return nil
}

// statedBy counts an owner's statements.
func (pn *planner) statedBy(owner slot.PeerID) (n int) {
	for _, s := range pn.open.lead.segments {
		if owns(*pn.open.lead.plan, owner, s.Range) {
			n++
		}
	}
	return n
}

// stated are the statements that cover a range, in order; ok is false while there is a gap.
func (l *planning) stated(r slot.Range) (segments []slot.Segment, ok bool) {
	for at := r.Begin; at < r.End; {
		s, ok := l.segments[at]
		if !ok {
			return nil, false
		}
		segments, at = append(segments, s.Segment), s.Range.End
	}
	return segments, true
}
