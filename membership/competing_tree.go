package membership

import (
	"fmt"
	"slices"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// chooseOnceShown chooses between the branches that are known, in trust byzantine, when the
// gathered one is all there: the work at its end may matter.
func (co *competing) chooseOnceShown() (better *branch) {
	r := co.gathering
	if r.chain.Height() < r.claim.Height && (co.chain.Pinned() || !r.chain.Pinned()) {
		return nil
	}
	common := co.chain.CommonHeight(r.chain)
	switch {
	case r.chain.Height() == common || !r.chain.Pinned():
	case co.own.left:
		co.gathering = nil
		return nil
	case !co.chain.Pinned():
		co.gathering = nil
		return r
	case common == co.chain.Height() && !co.mayFollow(r.chain.At(common+1)) &&
		r.chain.Tip().Work <= co.chain.Tip().Work:
		// It is left to those that decide at the tip, until the others are further.
	case !co.mayGiveUp(common, nil):
		if first := r.chain.Hash(common + 1); r.chain.Outranks(co.chain) && !slices.Contains(co.refused, first) {
			co.refuse(r, common, first)
		}
	default:
		if c, from := co.known.Choose(co.chain, r.chain, r.from, co.cfg.Self); c != nil {
			co.gathering = nil
			return &branch{chain: c, from: from}
		}
	}
	co.judge()
	return nil
}

// refuse leaves it to an operator whether to move to a branch that parted too long ago.
func (co *competing) refuse(r *branch, common uint64, first slot.Root) {
	co.refused = appendRecent(co.refused, first)
	if r.claim.Branch != co.chain.Branch() {
		co.refused = appendRecent(co.refused, r.claim.Branch)
	}
	co.reportPeer(EventRefused, ReasonOldBranch, r.from,
		fmt.Sprintf("it shows another branch of the run, and the one here has grown by %d records since they "+
			"parted at height %d: too many to be given up by itself. If that branch is the right one, start this "+
			"peer again with --pin %s; else stop the peers of the other branch", co.chain.Height()-common, common,
			first))
}
