package membership

import (
	"slices"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// along says whether a peer is on this branch, according to its newest ALIVE: it stands at one of
// the branch's records, or further on it.
func (pr *presence) along(a *contact) bool {
	return a.alive == nil || !pr.differs(*a.alive) && a.alive.Branch == pr.chain.Branch() ||
		pr.chain.Has(a.alive.Height, a.alive.Tip)
}

// differs says whether an ALIVE is about another record at a height where this chain has one. Two
// branches need no fork for that: a leader that votes twice may have a record certified on either
// side.
func (pr *presence) differs(a wire.Alive) bool {
	return a.Height > 0 && a.Height <= pr.chain.Height() && !pr.chain.Has(a.Height, a.Tip)
}

// memberShows says whether this peer has lately received an ALIVE of any member of the tip that is
// on this branch.
func (pr *presence) memberShows() bool {
	return pr.member() || slices.ContainsFunc(pr.chain.Members(), func(e slot.Member) bool {
		a := pr.known[ofMember(e)]
		return a != nil && a.alive != nil && pr.around(a.memberKey) && pr.along(a)
	})
}

// ours says whether this peer follows the chain that an ALIVE is about record by record. It does so
// on its own branch. A peer that has no chain yet follows any branch. So does a peer that stands on
// a part of the chain that no member stands on any more, since forks may lie ahead.
func (pr *presence) ours(a wire.Alive) bool {
	return pr.mayGrow() && (a.Branch == pr.chain.Branch() || pr.chain.Height() == 0 || !pr.memberShows())
}

// onAnotherBranch says whether a member stands on another branch. Such a member leads nothing here,
// whatever its timeout.
func (pr *presence) onAnotherBranch(w memberKey) bool {
	a := pr.known[w]
	return a != nil && a.alive != nil && a.alive.Height > 0 &&
		(a.alive.Branch != pr.chain.Branch() || pr.differs(*a.alive))
}

// atOurTip says whether a peer's newest ALIVE shows the state after our tip.
func (pr *presence) atOurTip(a *contact) bool {
	return a.alive != nil && a.alive.Synced && a.alive.Tip == pr.chain.TipHash() && a.alive.Applied == a.alive.Height
}

// cameBack says whether a member's peer is heard in another incarnation.
func (pr *presence) cameBack(e slot.Member) bool {
	for w := range pr.known {
		if w.peer == e.Peer && w.inc != e.Incarnation && pr.around(w) {
			return true
		}
	}
	return false
}

// showsTip says whether a peer's newest ALIVE shows the state after our tip, or a later one.
func (pr *presence) showsTip(a *contact) bool {
	return a.alive != nil && a.alive.Synced && pr.along(a) && a.alive.Applied >= pr.chain.Height()
}

// hearsChain says whether a peer that is heard claims to have a chain.
func (pr *presence) hearsChain() bool {
	for w, a := range pr.known {
		if w != pr.self && a.alive != nil && a.alive.Height > 0 && pr.around(w) {
			return true
		}
	}
	return false
}
