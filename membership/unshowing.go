package membership

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/chain"
)

// hiders are the members of whose contributions this peer could get nothing when it checked an
// outcome. That proves nothing, and costs the slot another reduction. So when this peer leads it
// leaves such a member out of its plans: for a slot, for twice as many each time that it happens
// again soon, and never more electors than may lie, since the others would not follow. Members
// without a vote hold nothing up, and cost nothing to make: no number of them is too many. Such a
// member is left out in the same way after it has failed this peer in reductions.
type hiders struct {
	*facts
	*effects
	of      map[memberKey]hider
	failing map[memberKey]hider // without a vote, that failed this peer in reductions
	under   map[memberKey]failedUnder
	// with a vote, that plans listed in vain; and in which slots they were listed
	uncounted map[memberKey]hider
	listings  map[memberKey][]listing
}

// failedUnder are the leaders under whom a member has failed this peer since it was last left out,
// or one of its contributions counted.
type failedUnder struct {
	spent   uint64 // the sequence number of that contribution
	leaders []slot.PeerID
}

type hider struct {
	slot  uint64 // the newest slot in which it hid
	times int
	spent uint64 // the sequence number of its newest contribution that counted, at that time
}

// mostLeftOut is for how many slots a member is left out at most.
const mostLeftOut = 16

func (h hider) leftOut() uint64 { return uint64(min(1<<min(h.times-1, 10), mostLeftOut)) }

// holds says whether the member is left out of the plan for a slot.
func (h hider) holds(open uint64) bool { return h.slot < open && open <= h.slot+h.leftOut() }

// note takes in that a member hides in the open slot.
func (hs *hiders) note(p slot.PeerID) {
	i := slot.Find(hs.chain.Members(), p)
	if i < 0 || p == hs.cfg.Self {
		return
	}
	if hs.of == nil {
		hs.of = map[memberKey]hider{}
	}
	hs.onlyMembers()
	hs.count(hs.of, ofMember(hs.chain.Members()[i]), hs.chain.OpenSlot(), ReasonUnshown,
		"does not show what it has offered")
}

// fails takes in that a member has failed this peer in the reduction of the open slot. Each leader
// would else plan with it, and each slot cost another reduction. It counts once it has failed under
// more leaders than may lie: one that lies can send a member no plan, and then say that it is gone.
// Members with a vote are judged by what all leaders say of them (decided).
func (hs *hiders) fails(p, leader slot.PeerID) {
	i := slot.Find(hs.chain.Members(), p)
	if hs.tolerated() == 0 || i < 0 || slot.Find(hs.chain.Electorate(), p) >= 0 {
		return
	}
	if hs.failing == nil {
		hs.failing, hs.under = map[memberKey]hider{}, map[memberKey]failedUnder{}
	}
	hs.onlyMembers()
	by := ofMember(hs.chain.Members()[i])
	u := hs.under[by]
	if spent := hs.chain.SpentSeq(p); u.spent != spent {
		u = failedUnder{spent: spent}
	}
	u.leaders = slices.DeleteFunc(append(without(u.leaders, leader), leader), func(l slot.PeerID) bool {
		return slot.Find(hs.chain.Electorate(), l) < 0
	})
	if hs.under[by] = u; len(u.leaders) > hs.tolerated() {
		delete(hs.under, by) // or one leader that lies would renew it
		hs.count(hs.failing, by, hs.chain.OpenSlot(), ReasonFailed, "fails in the reduction")
	}
}

// onlyMembers forgets those that are no members any more.
func (hs *hiders) onlyMembers() {
	gone := func(k memberKey) bool {
		_, listed := chain.FindMember(hs.chain.Members(), k.peer, k.inc)
		return !listed
	}
	maps.DeleteFunc(hs.of, func(k memberKey, _ hider) bool { return gone(k) })
	maps.DeleteFunc(hs.failing, func(k memberKey, _ hider) bool { return gone(k) })
	maps.DeleteFunc(hs.under, func(k memberKey, _ failedUnder) bool { return gone(k) })
	maps.DeleteFunc(hs.uncounted, func(k memberKey, _ hider) bool { return gone(k) })
	maps.DeleteFunc(hs.listings, func(k memberKey, _ []listing) bool { return gone(k) })
}

// count counts in what a member does in a slot, once. What it did before counts unless it has taken
// part since for twice as long as it was left out, and something of it has counted: strangers would
// else take turns, and each be forgiven before its next one.
func (hs *hiders) count(in map[memberKey]hider, by memberKey, at uint64, why Reason, what string) {
	spent := hs.chain.SpentSeq(by.peer)
	h, again := in[by]
	switch {
	case again && h.slot >= at:
		return
	case again && (at <= h.slot+3*h.leftOut() || spent == h.spent):
		h.times++
	default:
		h.times = 1
	}
	h.slot, h.spent = at, spent
	in[by] = h
	if by == hs.self {
		return
	}
	until := at + h.leftOut()
	hs.event(Event{
		Kind: EventSuspected, Height: hs.chain.Height(), Slot: at, Peer: by.peer, Reason: why, Until: until,
		Detail: fmt.Sprintf("%s (%d times of late): plans of this peer leave it out until slot %d", what, h.times,
			until),
	})
}

// out lists the members that a plan for the open slot leaves out. A leader never leaves itself out.
func (hs *hiders) out() []slot.PeerID { return without(hs.passedOver(), hs.cfg.Self) }

// passedOver lists the members that honest leaders leave out, as far as this peer has seen what
// they have. It may be among them itself.
func (hs *hiders) passedOver() (out []slot.PeerID) {
	open, times := hs.chain.OpenSlot(), map[slot.PeerID]int{}
	for _, in := range []map[memberKey]hider{hs.of, hs.uncounted} {
		for by, h := range in {
			if h.holds(open) {
				times[by.peer] = max(times[by.peer], h.times)
			}
		}
	}
	for by, h := range hs.failing {
		if h.holds(open) && times[by.peer] == 0 && slot.Find(hs.chain.Electorate(), by.peer) < 0 {
			out = append(out, by.peer)
		}
	}
	out = slices.AppendSeq(out, maps.Keys(times))
	slices.SortFunc(out, func(a, b slot.PeerID) int { return cmp.Or(times[b]-times[a], cmpPeer(a, b)) })
	electors := 0
	return slices.DeleteFunc(out, func(p slot.PeerID) bool {
		elects := slot.Find(hs.chain.Electorate(), p) >= 0
		electors += btoi(elects)
		return elects && electors > hs.tolerated()
	})
}
