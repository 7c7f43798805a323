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

// out lists the members that a plan of this peer leaves out, of those that made some offers. What
// electors say of this height counts once a leader has failed there. Members without a vote are
// left out, however many they are, where this peer was shown nothing, or more electors than may lie
// say so. Of the electors as many as f and the term are, those first that most name, then in the
// order in which they lead; but so many that contributed lately stay that one is honest. A leader
// never leaves itself out.
func (hs *hiders) out(ballot uint32, offers []slot.Offer) (out []slot.PeerID) {
	if len(hs.of)+len(hs.open.hidden) == 0 {
		return nil // mostly nobody hides, and each tick asks
	}
	term, slotNow := int(slot.Ref{Ballot: ballot}.Term()), hs.chain.OpenSlot()
	times, named := map[slot.PeerID]int{}, map[slot.PeerID]map[slot.PeerID]struct{}{}
	for by, h := range hs.of {
		if h.slot < slotNow && slotNow <= h.slot+h.leftOut() {
			times[by.peer] = h.times
		}
	}
	for _, o := range offers {
		if from := hs.hiddenFrom(o); term > 0 && len(from) > 0 {
			times[o.Peer] += 0 // it is one of them
			named[o.Peer] = from
		}
	}
	delete(times, hs.cfg.Self)
	leads := func(p slot.PeerID) int {
		return slices.IndexFunc(hs.open.order, func(e slot.Member) bool { return e.Peer == p })
	}
	out = slices.SortedFunc(maps.Keys(times), func(a, b slot.PeerID) int {
		return cmp.Or(len(named[b])-len(named[a]), times[b]-times[a], leads(a)-leads(b), cmpPeer(a, b))
	})
	lately, f := hs.chain.Lately(), hs.tolerated()
	room, stay := f+term, len(lately)-f-1
	return slices.DeleteFunc(out, func(p slot.PeerID) bool {
		if leads(p) < 0 {
			return times[p] == 0 && !contains(named[p], hs.cfg.Self) && len(named[p]) <= f
		}
		if room == 0 || contains(lately, p) && f > 0 && stay <= 0 {
			return true
		}
		room--
		stay -= btoi(contains(lately, p))
		return false
	})
}

// hiddenFrom returns the electors that say that they are shown nothing of an offer. Another offer
// of the same member is taken for shown, once at a height.
func (hs *hiders) hiddenFrom(o slot.Offer) map[slot.PeerID]struct{} {
	if from := hs.open.hidden[o]; len(from) > 0 {
		return from
	}
	offers, all := 0, map[slot.PeerID]struct{}{}
	for other, from := range hs.open.hidden {
		if other.Peer == o.Peer {
			offers++
			maps.Copy(all, from)
		}
	}
	if offers < 2 {
		return nil
	}
	return all
}
