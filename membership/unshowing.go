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
	of      map[memberKey]hider
	failing map[memberKey]failing // for what leaders say, not for what this peer saw
}

type hider struct {
	slot  uint64 // the newest slot in which it hid
	times int
}

// mostLeftOut is for how many slots a member is left out at most.
const mostLeftOut = 16

func (h hider) leftOut() uint64 { return uint64(min(1<<min(h.times-1, 10), mostLeftOut)) }

// again counts one time more, in an open slot. What came before counts if the member has not taken
// part since for twice as long as it was left out, and a grace.
func (h hider) again(open, grace uint64) hider {
	if h.times > 0 && open <= h.slot+3*h.leftOut()+grace {
		return hider{open, h.times + 1}
	}
	return hider{open, 1}
}

// note takes in that a member hides in the open slot.
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
	if h, known := hs.of[by]; known && h.slot >= open {
		return
	}
	h := hs.of[by].again(open, 0)
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
	note := func(p slot.PeerID, h hider) {
		if h.times == 0 || h.slot >= open || open > h.slot+h.leftOut() {
			return
		}
		if times[p] == 0 {
			out = append(out, p)
		}
		times[p] = max(times[p], h.times)
	}
	for by, h := range hs.of {
		note(by.peer, h)
	}
	for by, f := range hs.failing {
		note(by.peer, f.hider)
	}
	slices.SortFunc(out, func(a, b slot.PeerID) int { return cmp.Or(times[b]-times[a], cmpPeer(a, b)) })
	electors := 0
	return slices.DeleteFunc(out, func(p slot.PeerID) bool {
		elects := slot.Find(hs.chain.Electorate(), p) >= 0
		electors += btoi(elects)
		return elects && electors > hs.tolerated()
	})
}
