package membership

import "github.com/p2pdiloco/p2pdiloco/membership/chain"

// strangersFor is the number of forkPauses without a quorum for which this peer believes strangers
// that announce a state. A peer that could fetch it from them has done so by then.
const strangersFor = 6

// newestHeld returns the height of the newest state of the own chain that this peer holds, or a
// peer that it hears on this chain.
func (fk *fork) newestHeld() (height uint64, ok bool) {
	if s := fk.model.state; s.known && !s.diverged {
		height, ok = s.height, true
	}
	for _, a := range fk.presence.known {
		if a.memberKey == fk.self || a.alive == nil || !a.alive.Synced || !fk.presence.around(a.memberKey) ||
			!fk.presence.along(a) ||
			fk.roster.evidence.evicted(a.memberKey) {
			continue
		}
		if _, member := chain.FindMember(fk.chain.Members(), a.peer, a.inc); !member &&
			fk.now-fk.lost > strangersFor*fk.forkPause() {
			continue
		}
		height, ok = max(height, min(a.alive.Applied, fk.chain.Height())), true
	}
	return height, ok
}
