package membership

import (
	"fmt"
	"slices"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// objections says why this elector does not want a step that its leader was free to draft, though
// it may follow. A leader could plan with its friends alone, give all parts to one owner, or leave
// honest contributions out of segments (BYZANTINE 4.1). The rules ask only for what an honest
// leader can have from honest electors alone: else strangers, who cost nothing, would stop the run
// (a14). They weaken with the term, since honest peers may be slow or unable to connect, and with
// time.
//
// They hold in trust byzantine, for four electors and more: fewer withstand no liar.
type objections struct {
	*facts
	*effects
	*height
	presence *presence
	history  *history
	handover *handover
	own      *own
	told     told
}

// objection is a rule that a leader's choice breaks, and about whom. The zero value is none.
type objection struct {
	rule wire.Rule
	whom []slot.PeerID
	why  string
}

// told is the objection that this peer last told a leader, and when.
type told struct {
	at    slot.Ref
	group slot.Root
	rule  wire.Rule
	when  time.Duration
}

// of returns why HAVE is not given for a draft yet.
func (ob *objections) of(d wire.Draft) (none objection) {
	if d.Record.Kind != slot.Step || d.Grounds.QC != nil {
		return none
	}
	p := ob.plan(d)
	if o := ob.toPlan(p, d.Term()); o.why != "" {
		return o
	}
	if ob.tolerated() == 0 {
		return none
	}
	return ob.leavesOut(p, d.Record, int(d.Term()))
}

// toPlan returns why no HAVE would be given for what a plan leads to. Leaders do not go on with
// such a plan of the one before.
func (ob *objections) toPlan(p slot.Plan, term uint32) (none objection) {
	if ob.tolerated() == 0 {
		return none
	}
	for _, rule := range []func(slot.Plan, int) objection{
		ob.passesOver, ob.lacksElectors, ob.dropsListed, ob.favours,
	} {
		if o := rule(p, int(term)); o.why != "" {
			return o
		}
	}
	return none
}

// tell sends an objection to the leader, once and then once a Retry while it stands.
func (ob *objections) tell(o objection, p slot.Plan) {
	d := ob.open
	now := told{d.at(d.ballot), p.Group(), o.rule, ob.now}
	leader := d.leader(d.ballot).Peer
	again := now.at == ob.told.at && now.group == ob.told.group && now.rule == ob.told.rule
	if !ob.elector() || leader == ob.cfg.Self || again && now.when-ob.told.when < ob.cfg.Timing.Retry {
		return
	}
	ob.told = now
	ob.send(ob.handover.notYet(now.group, o.rule, o.whom), leader)
}

// plan returns the plan of a draft as far as this peer has seen it: without one, the contributors
// are all that was planned with.
func (ob *objections) plan(d wire.Draft) slot.Plan {
	for _, p := range []*slot.Plan{ob.open.plan, ob.open.last} {
		if p != nil && p.Slot == d.Record.Slot && !slices.ContainsFunc(d.Record.Contributions,
			func(o slot.Offer) bool { return p.Place(o.Peer) < 0 }) {
			return *p
		}
	}
	return slot.Plan{Slot: d.Record.Slot, Offers: d.Record.Contributions}
}

// recentSteps is the number of step records that say whether an elector contributes: it may be
// missing from one of them. A young run has fewer.
const recentSteps = 4

// contributors lists the electors that an honest plan waits for: they train, and contributed
// lately.
func (ob *objections) contributors() []slot.Member {
	lately := ob.history.contributedLately()
	return slices.DeleteFunc(ob.trainers(), func(e slot.Member) bool { return !lately(e.Peer) })
}

// trainers lists the electors that are heard and say that they train. Who became a member in the
// midst of the slot, or was a newcomer when it began, holds up nobody.
func (ob *objections) trainers() (es []slot.Member) {
	for _, e := range ob.chain.Electorate() {
		w := ofMember(e)
		a := ob.presence.known[w]
		works := a != nil && !a.leaving && (a.alive == nil || a.alive.Contributes)
		if w == ob.self {
			works = ob.own.contributes && !ob.own.leaving
		}
		if works && !ob.cameDuring(e.Peer) && ob.counts(e.Peer) && ob.presence.around(w) {
			es = append(es, e)
		}
	}
	return es
}

// misses lists those of the electors for which an honest leader waits that are not among the offers
// of its plan: of those that contributed lately if they are more than f, since f may be liars; and
// of all that train, if these are enough for f+1 honest ones and the plan has no more than f
// electors, so that no outcome is of liars alone. It lists nobody once they have had their time.
func (ob *objections) misses(offers []slot.Offer) []slot.PeerID {
	f := ob.tolerated()
	lacks := func(es []slot.Member) (ps []slot.PeerID) {
		for _, e := range es {
			if !hasOffer(offers, e.Peer) {
				ps = append(ps, e.Peer)
			}
		}
		return ps
	}
	es := ob.contributors()
	if ps := lacks(es); len(ps) > f && !ob.tooLate(es) {
		return ps
	}
	es = ob.trainers()
	if ps := lacks(es); len(es) > 2*f && len(ob.byElectors(offers)) <= f && !ob.tooLate(es) {
		return slices.DeleteFunc(ps, ob.hidden)
	}
	return nil
}

// hidden says whether this peer would leave an elector out of its own plan.
func (ob *objections) hidden(p slot.PeerID) bool {
	electors := ob.chain.Electorate()
	i := slot.Find(electors, p)
	return i >= 0 && ob.handover.hides(electors[i])
}

// tooLate says whether most of some electors have offered so long ago that no straggler is waited
// for any more, or so many of them that fewer than most must do, as with the grace window. A peer
// that has started in the midst of the slot may know none of the offers: it goes by how long the
// leader has been at work. Nobody else does: a leader may say so from the slot's beginning on.
func (ob *objections) tooLate(electors []slot.Member) bool {
	offers, hi := ob.presence.offers(), ob.history
	all := ob.presence.offerTimes(offers)
	at := ob.presence.offerTimes(slices.DeleteFunc(offers, func(o slot.Offer) bool {
		return slot.Find(electors, o.Peer) < 0
	}))
	first, most := hi.starter(len(electors)), len(electors)/2
	wait := max(ob.cfg.Timing.Straggler, ob.cfg.Timing.MinGrace)
	return len(at) > most && ob.now >= at[most]+wait || len(at) > first && ob.now >= at[first]+fewWait*wait ||
		len(all) > 0 && ob.now >= all[0]+hi.loneStop(wait, len(electors)) ||
		hi.slotAt == never && ob.open.led && ob.now >= ob.open.ledAt+wait
}

// passesOver is rule S1: the plan lists the living members whose offers its leader had been given
// for a moment before.
func (ob *objections) passesOver(p slot.Plan, term int) (none objection) {
	missing := ob.handover.notGiven(p, term)
	if len(missing) == 0 {
		return none
	}
	return objection{wire.RuleOffers, missing, "its plan is without offers that it was given in time, of " +
		shortIDs(missing)}
}

// lacksElectors is rule S2: the plan lists all but f of the electors that are heard and contributed
// lately, and more than f electors, or stragglers have had their time.
func (ob *objections) lacksElectors(p slot.Plan, _ int) (none objection) {
	missing := ob.misses(p.Offers)
	if len(missing) == 0 {
		return none
	}
	return objection{wire.RuleElectors, missing, fmt.Sprintf(
		"its plan is without %d electors that are heard and contribute: %s", len(missing), shortIDs(missing))}
}

// dropsListed is rule S4 for a new list of offers: it lacks at most f, and one for each term, of
// the electors that are heard and that an earlier list of the same leader had. That these fail in
// the reduction, or show it nothing, is its word.
func (ob *objections) dropsListed(p slot.Plan, term int) (none objection) {
	dropped := ob.handover.dropped(p)
	if len(dropped) <= ob.tolerated()+term {
		return none
	}
	return objection{wire.RuleSegments, dropped, fmt.Sprintf(
		"its plan is without %d electors that are heard and were in its plan before: %s", len(dropped),
		shortIDs(dropped))}
}

// leavesOutElectors says whether a plan of another leader lacks more than f of the electors that
// are heard and have an offer among some. This peer need not go on with it, since it can plan with
// these.
func (ob *objections) leavesOutElectors(p slot.Plan, offers []slot.Offer) bool {
	lacks := 0
	for _, o := range offers {
		e := slot.Find(ob.chain.Electorate(), o.Peer)
		if e >= 0 && p.Place(o.Peer) < 0 && ob.counts(o.Peer) &&
			ob.presence.around(ofMember(ob.chain.Electorate()[e])) {
			lacks++
		}
	}
	return ob.tolerated() > 0 && lacks > ob.tolerated()
}

// favours is rule S3: the owners are electors or have contributed lately, and no owner has more
// frames than twice its share, or than the share of each honest elector if those own everything.
// Without a plan nobody knows the owners.
func (ob *objections) favours(p slot.Plan, term int) (none objection) {
	if len(p.Pieces) == 0 {
		return none
	}
	if o := ob.mayNotOwn(p); o.why != "" {
		return o
	}
	frame := max(1, ob.chain.Rules().Frame)
	count := func(n uint64) uint64 { return (n + frame - 1) / frame }
	frames, owned := count(ob.chain.Rules().Elements(p.Slot)), map[slot.PeerID]uint64{}
	for _, s := range p.Pieces {
		owned[s.Owner] += count(s.Range.Len())
	}
	electors := 0
	for i, o := range p.Offers {
		if slot.Find(ob.chain.Electorate(), o.Peer) >= 0 && !p.Gone.Has(i) {
			electors++
		}
	}
	honest := uint64(max(1, electors-ob.tolerated()-term))
	living := uint64(max(1, p.Living()))
	most := max((2*frames+living-1)/living, (frames+honest-1)/honest)
	for _, o := range p.Offers {
		if owned[o.Peer] > most {
			return objection{wire.RuleOwners, []slot.PeerID{o.Peer}, fmt.Sprintf(
				"its plan gives %s %d of %d frames; %d are the most", o.Peer.Short(), owned[o.Peer], frames, most)}
		}
	}
	return none
}

// mayNotOwn is the part of rule S3 that says who owns. Where nobody of a group may, all do: a plan
// has owners from its group alone.
func (ob *objections) mayNotOwn(p slot.Plan) (none objection) {
	if !slices.ContainsFunc(livingOf(p), ob.chain.MayOwn) {
		return none
	}
	for _, s := range p.Pieces {
		if !ob.chain.MayOwn(s.Owner) {
			return objection{wire.RuleOwners, []slot.PeerID{s.Owner}, fmt.Sprintf(
				"its plan gives elements %d to %d to %s, which has neither a vote nor credit", s.Range.Begin,
				s.Range.End, s.Owner.Short())}
		}
	}
	return none
}

// leavesOut is rule S4: the set of each segment lacks at most f, and one for each term, of the
// plan's electors that are heard. Those of them that count as newcomers may have to go with others.
func (ob *objections) leavesOut(p slot.Plan, r slot.Record, term int) (none objection) {
	for _, s := range r.Segments {
		var lacks []slot.PeerID
		for _, o := range p.Offers {
			e := slot.Find(ob.chain.Electorate(), o.Peer)
			if e < 0 || !ob.counts(o.Peer) || !ob.presence.around(ofMember(ob.chain.Electorate()[e])) {
				continue
			}
			i := slices.IndexFunc(r.Contributions, func(c slot.Offer) bool { return c.Peer == o.Peer })
			if i < 0 || !s.Contributors.Has(i) {
				lacks = append(lacks, o.Peer)
			}
		}
		if len(lacks) > ob.tolerated()+term {
			return objection{wire.RuleSegments, lacks, fmt.Sprintf(
				"elements %d to %d are without the contributions of %d electors that are heard: %s", s.Range.Begin,
				s.Range.End, len(lacks), shortIDs(lacks))}
		}
	}
	return none
}

// waits says whether a plan with these offers would be objected to for want of others.
func (ob *objections) waits(offers []slot.Offer) bool {
	return ob.tolerated() > 0 && len(ob.misses(offers)) > 0
}
