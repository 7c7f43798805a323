package membership

// retreat goes back from unrecoverable records: no peer holds their state.
type retreat struct {
	*facts
	model     *model
	own       *own
	fork      *fork
	competing *competing
}

// consider goes back to the newest record with a state that some peer has, once no quorum
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
	height, ok := re.fork.newestHeld()
	if !ok || height == re.chain.Height() || height == 0 || re.chain.Ended() ||
		re.own.left || re.own.leaving || re.fork.follows(gathering) {
		f.unheldSince = never
		return 0, false
	}
	if f.unheldSince == never {
		f.unheldSince = re.now
	}
	waited := re.now-f.lost >= 2*re.fork.forkPause() && re.now-f.unheldSince >= 2*re.fork.forkPause()
	if !re.fork.stalled() || !waited && !f.ordered || s.applying > 0 || s.syncing ||
		!re.competing.mayGiveUp(height, nil) && !f.ordered {
		return 0, false
	}
	return height, true
}
