package membership

import (
	"slices"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/chain"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// disputed says whether a chain, up to a height, has a fork above another one that those before it
// have not agreed to: too few of its electors have signed the fork, or any record since. Members
// that a record lists are no word of theirs: whoever forks alone may list everybody, and be the
// run again by its records (chain.BranchKind). Only the records that are held are looked at.
//
// What a few have decided on such a branch ends no process of others: in trust crash one member
// alone can fork, and make its branch as heavy as it likes.
func disputed(
	on *chain.Chain, above, height uint64, few func(before []slot.Member, signed func(slot.Member) bool) bool,
) bool {
	signed := map[memberKey]bool{}
	for _, c := range slices.Backward(on.Commits()) {
		h := c.Record.Height
		if h > height {
			continue
		}
		if h <= max(above, 1) || !on.Holds(h-1) {
			return false
		}
		before := on.At(h - 1).Electors()
		for _, e := range signers(c, before) {
			signed[ofMember(e)] = true
		}
		if c.Record.Kind == slot.Fork && few(before, func(e slot.Member) bool { return signed[ofMember(e)] }) {
			return true
		}
	}
	return false
}

// signers lists the electors that have signed a record's certificate, of those before it.
func signers(c wire.Commit, before []slot.Member) (es []slot.Member) {
	if c.Record.Kind == slot.Fork {
		before = c.Record.Electors()
	}
	for _, s := range c.Certificate.Signatures {
		if i := slot.Find(before, s.Peer); i >= 0 {
			es = append(es, before[i])
		}
	}
	return es
}

// fewerThanHalf says whether fewer than half of the electors of a record have signed what follows.
func fewerThanHalf(before []slot.Member, signed func(slot.Member) bool) bool {
	return 2*chain.CountMembers(before, signed) < len(before)
}
