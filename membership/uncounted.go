package membership

import (
	"cmp"
	"maps"
	"slices"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// Electors that fail in reductions, or say that they have failed, cost each slot another reduction,
// or the wait for an owner that is silent. Who failed whom is known to the leader alone. But all
// see whom a leader has listed, and who counts in the record in the end. One leader's word is
// nothing: it may lie, or have a poor link, so that all fail it. So an elector is judged by the
// slots of all leaders but those f under whom it has failed most. If it does not count in most of
// the others, and in two at least, then it has failed under as many honest leaders: each liar that
// is not set aside has an honest leader in its place that is, and under whom it failed no less. An
// honest elector whose link fails now and then stays in the plans, whatever f leaders say.

// listing is a slot in which the plan of another leader listed an elector.
type listing struct {
	leader slot.PeerID
	failed bool // the record does not have it
}

// recentListings are how many listings of an elector are kept, for each liar that there may be.
const recentListings = 12

// fewestFailures is how often an elector fails before it is left out.
const fewestFailures = 2

// decided takes in which electors of those that a leader listed count in the record.
func (hs *hiders) decided(r slot.Record, leader slot.PeerID, listed map[slot.PeerID]struct{}) {
	if hs.listings == nil {
		hs.listings, hs.uncounted = map[memberKey][]listing{}, map[memberKey]hider{}
	}
	hs.onlyMembers()
	for _, e := range hs.chain.Electorate() {
		if _, was := listed[e.Peer]; !was || e.Peer == leader {
			continue
		}
		by, failed := ofMember(e), !hasOffer(r.Contributions, e.Peer)
		all := slices.DeleteFunc(append(slices.Clone(hs.listings[by]), listing{leader, failed}), func(l listing) bool {
			return slot.Find(hs.chain.Electorate(), l.leader) < 0
		})
		// no leader that was set aside has it left out anew: one that lies would, for good
		aside := slices.Contains(hs.aside(hs.listings[by]), leader)
		hs.listings[by] = all[max(0, len(all)-recentListings*hs.tolerated()):]
		if failed && !aside && hs.failsMost(hs.listings[by]) {
			hs.count(hs.uncounted, by, r.Slot, ReasonFailed, "fails in the reduction under several leaders")
		}
	}
}

// aside are the leaders under whom an elector has failed most, as many as may lie.
func (hs *hiders) aside(all []listing) []slot.PeerID {
	times := map[slot.PeerID]int{}
	for _, l := range all {
		times[l.leader] += btoi(l.failed)
	}
	leaders := slices.SortedFunc(maps.Keys(times), func(a, b slot.PeerID) int {
		return cmp.Or(times[b]-times[a], cmpPeer(a, b))
	})
	return leaders[:min(hs.tolerated(), len(leaders))]
}

// failsMost says whether an elector fails in most of the slots that are not those of the leaders
// that are set aside.
func (hs *hiders) failsMost(all []listing) bool {
	aside := hs.aside(all)
	slots, fails := 0, 0
	for _, l := range all {
		if !slices.Contains(aside, l.leader) {
			slots++
			fails += btoi(l.failed)
		}
	}
	return fails >= fewestFailures && 2*fails >= slots
}
