package membership

import (
	"fmt"
	"maps"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/chain"
)

// failing is a member without which leaders have begun groups anew, where outcomes are audited.
// Only its leader sees what it failed in. So it takes the word of more leaders than may lie,
// each time. Then all electors leave it out of their plans, as they do with hiders. A peer that was
// started again, or whose link fails now and then, is left out for a slot at most.
type failing struct {
	hider
	// when leaders began a group without it, since it was last left out
	leaders map[slot.PeerID]uint64
}

// forgetLeader is the number of slots after which the word of a leader does not count any more.
const forgetLeader = 2 * mostLeftOut

// noteFailed takes in that a leader has begun a group of the open slot without a member that it had
// listed.
func (hs *hiders) noteFailed(p, leader slot.PeerID) {
	members, open := hs.chain.Members(), hs.chain.OpenSlot()
	i := slot.Find(members, p)
	if i < 0 || p == hs.cfg.Self || p == leader || hs.tolerated() == 0 || !hs.chain.Rules().Audits() {
		return
	}
	if hs.failing == nil {
		hs.failing = map[memberKey]failing{}
	}
	maps.DeleteFunc(hs.failing, func(k memberKey, _ failing) bool {
		_, listed := chain.FindMember(members, k.peer, k.inc)
		return !listed
	})
	by := ofMember(members[i])
	f := hs.failing[by]
	if f.leaders == nil {
		f.leaders = map[slot.PeerID]uint64{}
	}
	maps.DeleteFunc(f.leaders, func(_ slot.PeerID, at uint64) bool { return at+forgetLeader < open })
	f.leaders[leader] = open
	if len(f.leaders) > hs.tolerated() {
		f = failing{hider: f.again(open, 2*uint64(len(hs.chain.Electorate())))}
		hs.event(Event{
			Kind: EventSuspected, Height: hs.chain.Height(), Slot: open, Peer: p,
			Detail: fmt.Sprintf("failed in the reductions of several leaders (%d times of late): plans of this peer "+
				"leave it out until slot %d", f.times, open+f.leftOut()),
		})
	}
	hs.failing[by] = f
}
