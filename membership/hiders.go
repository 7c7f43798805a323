package membership

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/chain"
)

// hiders are the members of whose contributions electors could get nothing when they checked an
// outcome. That proves nothing, and costs the slot another reduction. So when this peer leads it
// leaves out of its plans those that electors name at this height, and for some slots, twice as
// many each time that it happens again soon, those that hid from itself.
type hiders struct {
	*facts
	*effects
	*height
	of map[memberKey]hider
}

type hider struct {
	slot  uint64 // the newest slot in which it hid
	times int
	spent uint64 // the sequence number of its newest contribution that counted, at that time
}

// mostLeftOut is for how many slots a member is left out at most.
const mostLeftOut = 16

func (h hider) leftOut() uint64 { return uint64(min(1<<min(h.times-1, 10), mostLeftOut)) }

// note takes in that a member hides from this peer in the open slot. What it did before counts
// unless it has taken part since for twice as long as it was left out, and something of it has
// counted.
func (hs *hiders) note(p slot.PeerID) {
	maps.DeleteFunc(hs.of, func(k memberKey, _ hider) bool {
		_, listed := chain.FindMember(hs.chain.Members(), k.peer, k.inc)
		return !listed
	})
	i := slot.Find(hs.chain.Members(), p)
	if i < 0 || p == hs.cfg.Self {
		return
	}
	by, at, spent := ofMember(hs.chain.Members()[i]), hs.chain.OpenSlot(), hs.chain.SpentSeq(p)
	h := hs.of[by]
	if h.times > 0 && h.slot >= at {
		return
	}
	if h.times > 0 && at > h.slot+3*h.leftOut() && spent != h.spent {
		h.times = 0
	}
	h = hider{at, h.times + 1, spent}
	hs.of[by] = h
	hs.event(Event{
		Kind: EventSuspected, Height: hs.chain.Height(), Slot: at, Peer: p, Reason: ReasonUnshown,
		Until: at + h.leftOut(), Detail: fmt.Sprintf("does not show what it has offered (%d times of late): plans of "+
			"this peer leave it out until slot %d", h.times, at+h.leftOut()),
	})
}

// out lists the members that a plan of this peer leaves out. What electors say of this height
// counts once a leader has failed there: one that lies says it of anybody. All members without a
// vote are left out, for names cost nothing; of the electors as many as f and the term, those first
// that most electors name. A leader never leaves itself out.
func (hs *hiders) out(ballot uint32) (out []slot.PeerID) {
	times, open := map[slot.PeerID]int{}, hs.chain.OpenSlot()
	for by, h := range hs.of {
		if h.slot < open && open <= h.slot+h.leftOut() {
			times[by.peer] = h.times
		}
	}
	term := int(slot.Ref{Ballot: ballot}.Term())
	for p := range hs.open.hidden {
		if term > 0 {
			times[p] += 0
		}
	}
	delete(times, hs.cfg.Self)
	named := func(p slot.PeerID) int { return len(hs.open.hidden[p]) }
	out = slices.SortedFunc(maps.Keys(times), func(a, b slot.PeerID) int {
		return cmp.Or(named(b)-named(a), times[b]-times[a], cmpPeer(a, b))
	})
	electors := 0
	return slices.DeleteFunc(out, func(p slot.PeerID) bool {
		elects := slot.Find(hs.chain.Electorate(), p) >= 0
		electors += btoi(elects)
		return elects && electors > hs.tolerated()+term
	})
}
