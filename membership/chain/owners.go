package chain

import (
	"slices"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// CheckOwners says whether those who reduce some pieces for a group may (rule V14): each has a seat
// or credit, unless nobody in the group has, and none has more frames than twice an equal share
// among so many contributors, or those of them that may own, if these are fewer, or than an equal
// share of f+1, if that is more. A leader that lies could otherwise give all parts to one owner. It
// is a rule about plans: records do not say who reduced them.
func (pos *position) CheckOwners(pieces []slot.Piece, group []slot.PeerID, contributors int) error {
	f := pos.rules.Liars(len(pos.Electorate()))
	if f == 0 {
		return nil
	}
	frame := max(1, pos.rules.Frame)
	count := func(n uint64) uint64 { return (n + frame - 1) / frame }
	all, owned, entitled := uint64(0), map[slot.PeerID]uint64{}, slices.ContainsFunc(group, pos.MayOwn)
	for _, p := range pieces {
		n := count(p.Range.Len())
		all, owned[p.Owner] = all+n, owned[p.Owner]+n
	}
	if entitled { // others own nothing
		owners := slices.DeleteFunc(slices.Clone(group), func(p slot.PeerID) bool { return !pos.MayOwn(p) })
		contributors = min(contributors, len(owners))
	}
	of := func(shares, n uint64) uint64 { return (shares*all + n - 1) / n }
	most := max(of(2, uint64(max(1, contributors))), of(1, uint64(f+1)))
	for owner, n := range owned {
		switch {
		case entitled && !pos.MayOwn(owner):
			return Invalid("%s owns a piece and has neither a vote nor credit", owner.Short())
		case n > most:
			return Invalid("%s owns %d of %d frames; %d are the most", owner.Short(), n, all, most)
		}
	}
	return nil
}
