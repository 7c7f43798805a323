package membership

import (
	"cmp"
	"slices"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/chain"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// An owner closes a range where it loses a contributor, and an outcome has room for so many. In a
// large group some contributors can end their streams one after the other, each to some of the
// owners only: no report convicts them, every owner runs out of ranges, and gives up. Begun anew
// with everybody the slot would end the same way each time. So once enough owners say that they ran
// out, the next group is without those that enough owners have lost in this one. It costs a member
// one slot at most, and only after such an attempt.

// rangesLost is what the owners of a leader's groups say of contributors that they lost, and of
// themselves.
type rangesLost struct {
	of  map[slot.PeerID]map[slot.PeerID]struct{} // the owners that lost a contributor
	out map[slot.PeerID]struct{}                 // owners that ran out of ranges
}

// noteRanges takes in a report of an owner of the plan.
func (pn *planner) noteRanges(r report) {
	l := pn.open.lead
	p, s := l.plan, &l.ranges
	owns := func(q slot.Piece) bool { return q.Owner == r.by }
	if p == nil || len(p.Ring) > 0 || !slices.ContainsFunc(p.Pieces, owns) {
		return
	}
	if s.of == nil {
		*s = rangesLost{of: map[slot.PeerID]map[slot.PeerID]struct{}{}, out: map[slot.PeerID]struct{}{}}
	}
	switch {
	case r.reason == wire.LostRanges:
		s.out[r.by] = struct{}{}
	case r.reason == wire.LostConnection && r.by != r.of:
		if s.of[r.of] == nil {
			s.of[r.of] = map[slot.PeerID]struct{}{}
		}
		s.of[r.of][r.by] = struct{}{}
	}
}

// awaitsMore says whether a report is an owner's word that it has no room, and others may say so
// soon: alone it would cost the owner its place, and the group what was reduced.
func (pn *planner) awaitsMore(r report) bool {
	return r.reason == wire.LostRanges && pn.now-r.at < pn.cfg.Timing.Lost
}

// enoughOwners says whether the word of some owners counts. Where members may lie it takes more
// electors than may lie, so one of them is honest; else a quarter of the owners, and two at least.
func (pn *planner) enoughOwners(owners map[slot.PeerID]struct{}) bool {
	if f := pn.tolerated(); f > 0 {
		return chain.CountMembers(pn.chain.Electorate(), func(e slot.Member) bool {
			_, in := owners[e.Peer]
			return in
		}) > f
	}
	all := map[slot.PeerID]struct{}{}
	for _, piece := range pn.open.lead.plan.Pieces {
		all[piece.Owner] = struct{}{}
	}
	return len(owners) >= 2 && 4*len(owners) >= len(all)
}

// beginWithoutDroppers opens a new group without those that enough owners have lost, if enough of
// them ran out of ranges. The owners themselves did nothing wrong.
func (pn *planner) beginWithoutDroppers() bool {
	l := pn.open.lead
	s := l.ranges
	if l.plan == nil || !pn.enoughOwners(s.out) {
		return false
	}
	droppers := pn.droppers()
	if len(droppers) == 0 {
		return false
	}
	for p := range s.out {
		delete(l.excluded, p)
	}
	before := l.plan
	for _, p := range droppers {
		l.exclude(before.Offers[before.Place(p)])
		pn.reportPeer(EventSuspected, ReasonEndedStreams, p,
			"ended its streams to many owners one after the other, which left no room in the outcome: it is "+
				"left out of the step")
	}
	l.givenUp, l.ranges = l.group, rangesLost{}
	l.plan, l.segments = nil, nil
	pn.startPlan()
	return true
}

// droppers lists the members that enough owners have lost, those with most of them first: of
// electors no more than others take for honest, and none where too few would be left.
func (pn *planner) droppers() (ps []slot.PeerID) {
	l := pn.open.lead
	of := l.ranges.of
	for p, by := range of {
		if _, out := l.ranges.out[p]; !out && l.plan.Place(p) >= 0 && p != pn.cfg.Self && pn.enoughOwners(by) {
			ps = append(ps, p)
		}
	}
	slices.SortFunc(ps, func(a, b slot.PeerID) int {
		return cmp.Or(cmp.Compare(len(of[b]), len(of[a])), cmpPeer(a, b))
	})
	electors := 0
	ps = slices.DeleteFunc(ps, func(p slot.PeerID) bool {
		if pn.tolerated() == 0 || slot.Find(pn.chain.Electorate(), p) < 0 {
			return false
		}
		electors++
		return electors > pn.tolerated()+int(l.ref.Term())
	})
	if len(pn.offers())-len(ps) < max(1, pn.chain.Rules().MinPeers) {
		return nil
	}
	return ps
}
