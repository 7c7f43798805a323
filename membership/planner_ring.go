package membership

import (
	"cmp"
	"slices"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/chain"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// A ring is broken for all as soon as it is broken between two neighbours, and no other peer can
// see where. So the leader acts on the report of one peer, and the cost of that is bounded:
//
//   - a report counts only about its sender's neighbours, in the round that runs: reports about
//     another circle are settled, or repeated;
//   - it costs one of the two, the one that says it or the one it names. A peer that names both its
//     neighbours goes itself;
//   - that once a ballot. Where the one that was left out is still heard, the next such word ends
//     the ring: the slot is reduced anew in a rotation, by all of the group, where nobody's word
//     alone moves anything;
//   - that somebody sent bad values or bytes keeps nobody out of other groups: a partial result is
//     not its sender's alone.
//
// One that says it is alive and passes nothing on holds up all and is seen by nobody. So a ring
// that does not get on, or takes far too long, ends too.

// inRing says whether a report is about the way between two neighbours: not about its sender, nor
// about an outcome.
func (r report) inRing() bool { return r.by != r.of && r.reason != wire.LostOutcome }

// checkRing refuses reports about a ring from which nobody could tell the honest side, or that are
// late.
func checkRing(p slot.Plan, r report, round slot.Root) error {
	switch {
	case len(p.Ring) == 0 || !r.inRing():
		return nil
	case round != p.Round():
		return ErrStale
	case !p.Beside(p.Place(r.by), p.Place(r.of)):
		return chain.Invalid("a report about a peer that is no neighbour in the ring")
	}
	return nil
}

// ringReports divides the reports on a plan into those about ways in its ring, and all others.
func ringReports(p slot.Plan, reports []report) (ring, others []report) {
	for _, r := range reports {
		if len(p.Ring) > 0 && r.inRing() {
			ring = append(ring, r)
		} else {
			others = append(others, r)
		}
	}
	return ring, others
}

// mendRing goes on without one of two neighbours that cannot work together, or without a ring. This
// peer's own report counts at once. Another's counts after a Beat, when the other side had time to
// send its own.
func (pn *planner) mendRing(words []report) bool {
	l := pn.open.lead
	ripe := func(r report) bool { return r.by == pn.cfg.Self || pn.now-r.at >= pn.cfg.Timing.Beat }
	if !slices.ContainsFunc(words, ripe) {
		return false
	}
	if slices.ContainsFunc(l.leftOutOfRing, pn.presence.heardOf) {
		pn.giveUpRing(*l.plan)
		return true
	}
	out := pn.unfit(words)
	l.leftOutOfRing = append(l.leftOutOfRing, out)
	pn.leaveOut([]slot.PeerID{out})
	return true
}

// unfit picks the peer that leaves a ring: one that names both its neighbours; else one that both
// its neighbours name; else, of the first two that cannot work together, the one that fewer members
// reach, then the one that is not the leader, then the one that is named, then the higher ID.
func (pn *planner) unfit(words []report) slot.PeerID {
	names, named := map[slot.PeerID][]slot.PeerID{}, map[slot.PeerID][]slot.PeerID{}
	for _, r := range words {
		names[r.by] = union(names[r.by], []slot.PeerID{r.of})
		named[r.of] = union(named[r.of], []slot.PeerID{r.by})
	}
	for _, words := range []map[slot.PeerID][]slot.PeerID{names, named} {
		if p := worstOf(words); len(words[p]) > 1 {
			return p
		}
	}
	own := func(p slot.PeerID) int { return map[bool]int{true: 1}[p == pn.cfg.Self] }
	return slices.MaxFunc([]slot.PeerID{words[0].by, words[0].of}, func(a, b slot.PeerID) int {
		return cmp.Or(
			cmp.Compare(pn.presence.reachedBy(b), pn.presence.reachedBy(a)), cmp.Compare(own(b), own(a)),
			cmp.Compare(len(named[a]), len(named[b])), cmpPeer(a, b))
	})
}

// worstOf returns the peer with the most reports, and of equal ones that with the highest ID.
func worstOf(words map[slot.PeerID][]slot.PeerID) (worst slot.PeerID) {
	for p, w := range words {
		if cmp.Or(cmp.Compare(len(w), len(words[worst])), cmpPeer(p, worst)) > 0 {
			worst = p
		}
	}
	return worst
}

// giveUpRing opens the slot's reduction anew as a rotation, with the peers that were left out for
// connections. A rotation may always be (allreduce.Ring).
func (pn *planner) giveUpRing(p slot.Plan) {
	l := pn.open.lead
	pn.history.restRings(p.Slot)
	l.givenUp = p.Group()
	l.forgive()
	pn.startPlan()
}

// ringHangs says whether a ring makes no progress, whichever peer led meanwhile: no byte has come
// to this peer, which is in it, for as long as owners may be silent in a rotation; or it takes far
// longer than such reductions do, for bytes may drip.
func (pn *planner) ringHangs() bool {
	l, group := pn.open.lead, pn.open.groupReports
	at := l.plan.Place(pn.cfg.Self)
	if len(l.plan.Ring) == 0 || group.group != l.group {
		return false
	}
	least := silentTimeouts * pn.cfg.Timing.Patience
	quiet := at >= 0 && !l.plan.Gone.Has(at) && pn.now-max(group.since, pn.open.progressAt) >= least
	return quiet || pn.now-group.since >= least+slowOwnerFactor*min(cmp.Or(pn.history.usual, least), least)
}
