package membership

import "github.com/p2pdiloco/p2pdiloco/membership/chain"

// retreat goes back from unrecoverable records: no peer holds their state.
type retreat struct {
	*facts
	presence  *presence
	evidence  *evidence
	model     *model
	own       *own
	fork      *fork
	competing *competing
}

// strangersFor is the number of forkPauses without a quorum for which this peer believes strangers
// that announce a state. A peer that could fetch it from them has done so by then.
const strangersFor = 6

// newestHeld returns the height of the newest state of the own chain that this peer holds, or a
// peer that it hears on this chain.
func (re *retreat) newestHeld() (height uint64, ok bool) {
	if s := re.model.state; s.known && !s.diverged {
		height, ok = s.height, true
	}
	for _, a := range re.presence.known {
		if a.memberKey == re.self || a.alive == nil || !a.alive.Synced || !re.presence.around(a.memberKey) ||
			!re.presence.along(a) ||
			re.evidence.evicted(a.memberKey) {
			continue
		}
		if _, member := chain.FindMember(re.chain.Members(), a.peer, a.inc); !member &&
			re.now-re.fork.lost > strangersFor*re.fork.forkPause() {
			continue
		}
		height, ok = max(height, min(a.alive.Applied, re.chain.Height())), true
	}
	return height, ok
}

// leaveUnrecoverable goes back to the newest record with a state that some peer has, once no quorum
// and no holder of a newer state was heard for as long as it takes peers that are no members to
// fork.
func (re *retreat) consider(gathering bool) (height uint64, now bool) {
	f, s := &re.fork.forking, &re.model.state
	// Where members may lie, some of those that had the state after a record are left while a
	// majority of its electors is, and fewer wait for a person to decide.
	if !f.without || re.chain.MajorityForks() && !f.ordered {
		f.unheldSince = never
		return 0, false
	}
	height, ok := re.newestHeld()
	if !ok || height == re.chain.Height() || height == 0 || height < re.chain.Start() || re.chain.Ended() ||
		gathering || re.own.left || re.own.leaving {
		f.unheldSince = never
		return 0, false
	}
	if f.unheldSince == never {
		f.unheldSince = re.now
	}
	waited := re.now-f.lost >= 2*re.fork.forkPause() && re.now-f.unheldSince >= 2*re.fork.forkPause()
	if !re.fork.stalled() || !waited && !f.ordered || s.applying > 0 || s.syncing || !re.competing.mayGiveUp(height) &&
		!f.ordered {
		return 0, false
	}
	return height, true
}
