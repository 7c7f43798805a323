package chain

import (
	"cmp"
	"slices"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// A name costs nothing, and a chain that remembered each that ever was a member would grow for
// ever: every newcomer fetches what it remembers. So it remembers those that contributed, which
// come and go as they like; in a private run, where a name costs a ticket, the others too, since
// former members need no new ticket; and of those that went no more than maxNames.
const maxNames = 1 << 14

// meet takes in whom the next record lists, which comes after one with the members before. Names
// are forgotten with steps, so that within a slot nobody becomes a newcomer.
func (a *Access) meet(r slot.Record, before []slot.Member, private bool, proven map[slot.PeerID]struct{}) {
	for _, o := range r.Contributions { // also of members that went before their slot was decided
		if _, known := a.ever[o.Peer]; !known {
			a.ever[o.Peer] = r.Height
		}
	}
	for _, e := range r.Members {
		a.ever[e.Peer] = r.Height
	}
	for _, e := range before {
		if _, contributed := proven[e.Peer]; !private && !contributed && slot.Find(r.Members, e.Peer) < 0 {
			delete(a.ever, e.Peer)
		}
	}
	if r.Kind != slot.Step || len(a.ever)-len(r.Members) <= maxNames {
		return
	}
	gone := a.gone(r, proven)
	for _, p := range gone[:len(gone)-maxNames] {
		delete(a.ever, p)
		delete(proven, p)
	}
}

// gone lists the names of those that are no members, in the order in which they are forgotten:
// those without a contribution first, then those that went first, then the lower ID.
func (a *Access) gone(tip slot.Record, proven map[slot.PeerID]struct{}) (ps []slot.PeerID) {
	type former struct {
		peer        slot.PeerID
		listed      uint64
		contributed int
	}
	var all []former
	for p, listed := range a.ever {
		if slot.Find(tip.Members, p) >= 0 {
			continue
		}
		f := former{peer: p, listed: listed}
		if _, contributed := proven[p]; contributed {
			f.contributed = 1
		}
		all = append(all, f)
	}
	slices.SortFunc(all, func(f, g former) int {
		return cmp.Or(f.contributed-g.contributed, cmp.Compare(f.listed, g.listed), cmp.Compare(f.peer, g.peer))
	})
	for _, f := range all {
		ps = append(ps, f.peer)
	}
	return ps
}

// forgets says whether names may have been forgotten lately.
func (a *Access) forgets(tip slot.Record) bool { return len(a.ever)-len(tip.Members) >= maxNames/2 }

// statesNames says whether a summary has the names that records lead to.
func (s statedPast) statesNames() bool {
	tip := s.Tip()
	for p, listed := range s.access.ever {
		if listed == 0 || listed > tip.Height ||
			!s.rules.Private && !s.newcomers.Contributed(p) && slot.Find(tip.Members, p) < 0 {
			return false
		}
	}
	return true
}

// maxDecided bounds the peers that decisions are about, and the secrets that a run has had: each
// stays in what newcomers fetch.
const maxDecided = 1 << 16

// full says whether a decision would be about one more than there may be.
func (a *Access) full(d slot.Decision) bool {
	_, known := a.turns[d.Peer]
	return !known && len(a.turns) >= maxDecided || len(a.keys) >= maxDecided
}
