package chain

import (
	"slices"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// MajorityForks says whether a fork of the tip takes more than half of its electors, or half with
// the senior. It does where members may lie and are enough to withstand one that does: a few liars
// could fork any record otherwise, and make it work as much as they like. Fewer than four electors
// withstand no liar anyway, and whoever is left of them may fork.
func (pos *position) MajorityForks() bool { return pos.rules.byzantineAt(len(pos.Electorate())) }

// MayFork says whether the peers for which in holds are enough electors of the tip to fork it.
// Where it takes no majority, anybody is.
func (pos *position) MayFork(in func(slot.Member) bool) bool {
	return !pos.MajorityForks() || slot.Majority(pos.Electorate(), in)
}

// checkFork enforces which peers may fork the tip together. Anybody may found a run.
func (pos *position) checkFork(r slot.Record) error {
	if pos.tip.Height == 0 {
		return nil
	}
	electors := r.Electors()
	signs := func(e slot.Member) bool {
		_, in := FindMember(electors, e.Peer, e.Incarnation)
		return in
	}
	if !pos.MayFork(signs) {
		return Invalid("a fork by %d of %d electors: it takes more than half, or half with the senior",
			CountMembers(pos.Electorate(), signs), len(pos.Electorate()))
	}
	if stay := pos.Staying(r.Members); stay < len(r.Members) {
		return Invalid("a fork by %d peers that are no members of the record that is forked", len(r.Members)-stay)
	}
	return nil
}

// Provisional is a fork that fewer than a quorum have made, and that no quorum has come back to.
// The branch that it began may end: a certificate of a quorum of the same electors comes before it.
type Provisional struct {
	Height   uint64        // of the record that was forked
	Electors []slot.Member // of that record
	Missing  []slot.Member // of these, the ones that are no electors of the tip
}

// Provisional returns the oldest fork of the chain that is provisional; false: there is none. A
// fork is provisional until the electors of one of the records after it include a quorum of those
// before it. Those that a quorum's motions have removed since do not count: so operators say that
// the branch is the run.
func (pos *position) Provisional() (p Provisional, is bool) {
	if len(pos.provisional) == 0 {
		return p, false
	}
	p = pos.provisional[0]
	p.Missing = slices.DeleteFunc(slices.Clone(p.Electors), func(e slot.Member) bool {
		_, stays := FindMember(pos.Electorate(), e.Peer, e.Incarnation)
		return stays
	})
	return p, true
}

// stillProvisional lists the forks that are provisional once a record follows the tip.
func (s *state) stillProvisional(rules Rules, r slot.Record) []Provisional {
	forks := slices.Clone(s.provisional)
	if before := s.electors; r.Kind == slot.Fork && len(before) > 0 {
		forks = append(forks, Provisional{Height: r.Height - 1, Electors: before})
	}
	electors := r.Electors()
	return slices.DeleteFunc(forks, func(p Provisional) bool {
		count := slices.DeleteFunc(slices.Clone(p.Electors), func(e slot.Member) bool {
			return s.access.BarredBy(r, e.Peer)
		})
		return len(count) > 0 && rules.Quorum(count, func(e slot.Member) bool {
			_, stays := FindMember(electors, e.Peer, e.Incarnation)
			return stays
		})
	})
}
