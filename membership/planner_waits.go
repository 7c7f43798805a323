package membership

import (
	"fmt"
	"slices"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/chain"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// mostReplans is how often a leader plans anew in its term because others wait.
const mostReplans = 2

// showOffers tells the electors whose offers this leader has, while there is no plan: they hand
// over what it lacks.
func (pn *planner) showOffers() {
	l := pn.open.lead
	if l == nil || !l.prepared || l.plan != nil || l.draft != nil || l.proposal != nil || pn.tolerated() == 0 ||
		!pn.chain.TakesStep() || pn.now-l.waiting.shownAt < pn.cfg.Timing.slack(0) {
		return
	}
	members := pn.chain.Members()
	has := slot.NewBitmap(len(members))
	for _, o := range pn.offers() {
		has.Set(slot.Find(members, o.Peer))
	}
	w := &l.waiting
	if has.Count() == 0 || pn.now-w.shownAt < pn.cfg.Timing.Retry && slices.Equal(has, w.shown) {
		return
	}
	w.shown, w.shownAt = has, pn.now
	pn.send(wire.Beat{Ref: l.ref, Revision: l.revision, Has: has},
		without(peersOf(pn.chain.Electorate()), pn.cfg.Self)...)
}

// onNotYet takes the offers that an elector hands over, and notes what it waits for. Its word alone
// moves nothing: see mustReplan.
func (pn *planner) onNotYet(msg wire.Message, m wire.NotYet) error {
	if err := pn.from(msg); err != nil {
		return err
	}
	l, members := pn.open.lead, pn.chain.Members()
	if l == nil || pn.tolerated() == 0 || m.Term() != l.ref.Term() || msg.From == pn.cfg.Self {
		return ErrStale
	}
	if !m.Whom.Fits(len(members)) {
		return chain.Invalid("a NOTYET with %d bytes over %d members", len(m.Whom), len(members))
	}
	for i, o := range m.Offers {
		pn.take(o, m.Proofs[i])
	}
	if m.About.IsZero() || m.Ballot != l.ref.Ballot || l.plan == nil && l.draft == nil {
		return nil
	}
	var whom []slot.PeerID
	for i, e := range members {
		if m.Whom.Has(i) {
			whom = append(whom, e.Peer)
		}
	}
	pn.noteWaiting(msg.From, m, whom)
	return nil
}

// take takes an offer that somebody else hands over, as if its contributor had announced it here.
func (pn *planner) take(o slot.Offer, proof wire.OfferProof) {
	_ = pn.roster.onOffer(wire.Message{
		From: o.Peer, Incarnation: proof.Incarnation, Body: wire.Offer{Offer: o}, Sig: proof.Sig,
	}, wire.Offer{Offer: o}) // refused, as it would have been from its contributor
}

// noteWaiting keeps the newest objection of an elector, and reports the first under each rule. An
// elector that has not seen the plan judges by the draft alone: it gets the plan again.
func (pn *planner) noteWaiting(elector slot.PeerID, m wire.NotYet, whom []slot.PeerID) {
	l := pn.open.lead
	w, known := l.waiting.of[elector]
	if !known {
		w.repeated = never
	}
	if l.plan != nil && m.About != l.group && pn.now-w.repeated >= pn.cfg.Timing.Retry {
		w.repeated = pn.now
		pn.send(wire.Plan{Plan: *l.plan, Proofs: pn.proofs.of(l.plan.Offers)}, elector)
	}
	w.group, w.rule, w.whom = m.About, m.Rule, whom
	if !w.reported[m.Rule] {
		w.reported[m.Rule] = true
		pn.reportPeer(EventWaits, "", elector, waitsFor(m.Rule, whom))
	}
	l.waiting.of[elector] = w
}

// waitsFor says in plain words what an elector waits for.
func waitsFor(rule wire.Rule, whom []slot.PeerID) string {
	what := map[wire.Rule]string{
		wire.RuleOffers:   "the plan lacks members whose offers it says this peer was given",
		wire.RuleElectors: "the plan lacks electors that it hears",
		wire.RuleOwners:   "the plan gives more than it should to an owner",
		wire.RuleAudit:    "samples of contributions are not shown to it",
		wire.RuleSegments: "segments lack the contributions of electors that it hears",
	}[rule]
	return fmt.Sprintf("it gives this leader no HAVE yet: %s (%s): %s", what, rule, shortIDs(whom))
}

// awaited says of an elector whether it waits, under one of the rules, for somebody whom this
// leader can list if it plans now. That is all that a leader can check: the offers are here, and
// signed. A member that showed this leader nothing in slots before counts, too: the others may have
// been shown what they asked for.
func (pn *planner) awaited(rules ...wire.Rule) func(slot.PeerID) bool {
	l := pn.open.lead
	late := map[slot.PeerID]bool{}
	for _, o := range pn.withinShare(pn.standing()) {
		late[o.Peer] = l.plan.Place(o.Peer) < 0 && pn.presence.heardOf(o.Peer)
	}
	return func(elector slot.PeerID) bool {
		w := l.waiting.of[elector]
		return w.group == l.group && slices.Contains(rules, w.rule) &&
			slices.ContainsFunc(w.whom, func(p slot.PeerID) bool { return late[p] })
	}
}

// mustReplan says whether the electors that are heard are no quorum without those that wait for
// offers that are here now. A new group loses what was reduced. So nobody makes a leader open one
// whose HAVE it can do without: a contributor that comes late, and an elector that speaks for it,
// would have each slot reduced twice.
func (pn *planner) mustReplan(rules ...wire.Rule) bool {
	l := pn.open.lead
	if l.plan == nil || len(l.waiting.of) == 0 || l.waiting.replanned >= mostReplans {
		return false
	}
	waits := pn.awaited(rules...)
	if !slices.ContainsFunc(pn.chain.Electorate(), func(e slot.Member) bool { return waits(e.Peer) }) {
		return false
	}
	return !pn.chain.Rules().Quorum(pn.chain.Electorate(), func(e slot.Member) bool {
		h, gave := l.haves[ofMember(e)]
		return gave && h.Ballot == l.ref.Ballot || pn.presence.around(ofMember(e)) && !waits(e.Peer)
	})
}

// hides says whether more electors than may lie say that a contributor shows them nothing.
func (pn *planner) hides(p slot.PeerID) bool {
	n := 0
	for _, w := range pn.open.lead.waiting.of {
		n += btoi(w.group == pn.open.lead.group && w.rule == wire.RuleAudit && slices.Contains(w.whom, p))
	}
	return n > pn.tolerated()
}

// replan opens a new group before anything is drafted.
func (pn *planner) replan() bool {
	if !pn.mustReplan(wire.RuleOffers) {
		return false
	}
	pn.forgetWaiting()
	pn.startPlan()
	return true
}

// replanHanging says whether a draft is to be given up for a new group.
func (pn *planner) replanHanging() bool {
	l := pn.open.lead
	if pn.now-l.draftAt < pn.cfg.Timing.Retry || !pn.mustReplan(wire.RuleOffers, wire.RuleElectors) {
		return false
	}
	l.givenUp = l.group
	pn.forgetWaiting()
	return true
}

// forgetWaiting begins a new group: what electors held against the one before is settled. The new
// one lists whom they wait for.
func (pn *planner) forgetWaiting() {
	l := pn.open.lead
	l.waiting.replanned++
	for p, w := range l.waiting.of {
		if w.group == l.group && w.rule != wire.RuleAudit {
			l.waiting.wanted = union(l.waiting.wanted, w.whom)
		}
		w.group = slot.Root{}
		l.waiting.of[p] = w
	}
}
