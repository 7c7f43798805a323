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

// MayFork says whether the peers for which in holds are enough electors of the tip to fork it,
// where that takes a majority.
func (pos *position) MayFork(in func(slot.Member) bool) bool {
	return slot.Majority(pos.Electorate(), in)
}

// checkFork enforces which peers may fork the tip together. Anybody may found a run.
func (pos *position) checkFork(r slot.Record) error {
	if pos.tip.Height == 0 {
		return nil
	}
	if pos.MajorityForks() {
		electors := r.Electors()
		signs := func(e slot.Member) bool {
			_, in := FindMember(electors, e.Peer, e.Incarnation)
			return in
		}
		if !pos.MayFork(signs) {
			return Invalid("a fork by %d of %d electors: it takes more than half, or half with the senior",
				CountMembers(pos.Electorate(), signs), len(pos.Electorate()))
		}
		return nil
	}
	if stay := pos.Staying(r.Members); stay != 0 && stay != len(r.Members) {
		return Invalid("a fork by %d members and %d others: members fork alone, and others only without any", stay,
			len(r.Members)-stay)
	}
	return nil
}

// Provisional is a fork that fewer than a quorum have made, and that no quorum has come back to.
// The branch that it began may end: a certificate of a quorum of the same electors comes before it.
type Provisional struct {
	Height   uint64        // of the record that was forked
	Electors []slot.Member // of that record
	Missing  []slot.Member // of these, the ones that are no electors of the tip
	Few      bool          // fewer than half of them signed it: the branch is not the run
}

// BranchKind says what a chain is, of a run of which there may be several branches.
type BranchKind int

// The kinds, the best first.
const (
	IsRun BranchKind = iota // the run's chain, as all know it
	// half of the electors of a record or more have forked it, and no quorum of them is back
	IsProvisional
	IsBranch // so did fewer than half of them: it is not the run
)

// BranchKind returns the worst that the chain's forks make of it.
func (pos *position) BranchKind() BranchKind {
	switch {
	case slices.ContainsFunc(pos.provisional, func(p Provisional) bool { return p.Few }):
		return IsBranch
	case len(pos.provisional) > 0:
		return IsProvisional
	}
	return IsRun
}

// Provisional returns the oldest fork of the chain that is provisional, of those that fewer than
// half signed if there are any; false: there is none. A fork is provisional until the electors of
// one of the records after it include a quorum of those before it. Those that a quorum's motions
// have removed since do not count: so operators say that the branch is the run. They cannot say it
// of a fork that fewer than half signed.
func (pos *position) Provisional() (p Provisional, is bool) {
	if len(pos.provisional) == 0 {
		return p, false
	}
	p = pos.provisional[max(0, slices.IndexFunc(pos.provisional, func(p Provisional) bool { return p.Few }))]
	p.Missing = slices.DeleteFunc(slices.Clone(p.Electors), func(e slot.Member) bool {
		_, stays := FindMember(pos.Electorate(), e.Peer, e.Incarnation)
		return stays
	})
	return p, true
}

// newProvisional makes a fork of the record with these electors provisional.
func newProvisional(fork slot.Record, before []slot.Member) Provisional {
	return Provisional{
		Height: fork.Height - 1, Electors: before, Few: 2*signersOf(before, fork) < len(before),
	}
}

// stillProvisional lists the forks that are provisional once a record follows the tip.
func (s *state) stillProvisional(rules Rules, r slot.Record) []Provisional {
	forks := slices.Clone(s.provisional)
	if before := s.electors; r.Kind == slot.Fork && len(before) > 0 {
		forks = append(forks, newProvisional(r, before))
	}
	electors := r.Electors()
	return slices.DeleteFunc(forks, func(p Provisional) bool {
		count := p.Electors
		if !p.Few {
			count = slices.DeleteFunc(slices.Clone(count), func(e slot.Member) bool {
				return s.access.BarredBy(r, e.Peer)
			})
		}
		return len(count) > 0 && rules.Quorum(count, func(e slot.Member) bool {
			_, stays := FindMember(electors, e.Peer, e.Incarnation)
			return stays
		})
	})
}
