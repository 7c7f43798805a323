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
// without a vote hold nothing up, and cost nothing to make: no number of them is too many.
type hiders struct {
	*facts
	*effects
	of map[memberKey]hider
}

type hider struct {
	slot  uint64 // the newest slot in which it hid
	times int
}

// mostLeftOut is for how many slots a member is left out at most.
const mostLeftOut = 16

func (h hider) leftOut() uint64 { return uint64(min(1<<min(h.times-1, 10), mostLeftOut)) }

// note takes in that a member hides in the open slot. What it did before counts if it has not taken
// part since for twice as long as it was left out.
func (hs *hiders) note(p slot.PeerID) {
	members, open := hs.chain.Members(), hs.chain.OpenSlot()
	i := slot.Find(members, p)
	if i < 0 || p == hs.cfg.Self {
		return
	}
	if hs.of == nil {
		hs.of = map[memberKey]hider{}
	}
	maps.DeleteFunc(hs.of, func(k memberKey, _ hider) bool {
		_, listed := chain.FindMember(members, k.peer, k.inc)
		return !listed
	})
	by := ofMember(members[i])
	h, again := hs.of[by]
	switch {
	case again && h.slot >= open:
		return
	case again && open <= h.slot+3*h.leftOut():
		h.times++
	default:
		h.times = 1
	}
	h.slot = open
	hs.of[by] = h
	hs.event(Event{
		Kind: EventSuspected, Height: hs.chain.Height(), Slot: open, Peer: p,
		Detail: fmt.Sprintf("does not show what it has offered (%d times of late): plans of this peer leave it out "+
			"until slot %d", h.times, open+h.leftOut()),
	})
}

// out lists the members that a plan for the open slot leaves out.
func (hs *hiders) out() (out []slot.PeerID) {
	open, times := hs.chain.OpenSlot(), map[slot.PeerID]int{}
	for by, h := range hs.of {
		if h.slot < open && open <= h.slot+h.leftOut() {
			out, times[by.peer] = append(out, by.peer), h.times
		}
	}
	slices.SortFunc(out, func(a, b slot.PeerID) int { return cmp.Or(times[b]-times[a], cmpPeer(a, b)) })
	electors := 0
	return slices.DeleteFunc(out, func(p slot.PeerID) bool {
		elects := slot.Find(hs.chain.Electorate(), p) >= 0
		electors += btoi(elects)
		return elects && electors > hs.tolerated()
	})
}
