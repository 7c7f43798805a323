package chain

import (
	"slices"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// MajorityForks says whether a fork of the tip takes more than half of its electors, or half with
// the senior. It does where members may lie and are enough to withstand one that does: a few liars
// could fork any record otherwise, and make it work as much as they like. Fewer than four electors
// withstand no liar anyway, and whoever is left of them may fork.
func (c *Chain) MajorityForks() bool { return c.rules.byzantineAt(len(c.Electorate())) }

// MayFork says whether the peers for which in holds are enough electors of the tip to fork it,
// where that takes a majority.
func (c *Chain) MayFork(in func(slot.Member) bool) bool { return slot.Majority(c.Electorate(), in) }

// checkFork enforces which peers may fork the tip together. Anybody may found a run.
func (c *Chain) checkFork(r slot.Record) error {
	if c.Height() == 0 {
		return nil
	}
	if c.MajorityForks() {
		electors := r.Electors()
		signs := func(e slot.Member) bool {
			_, in := FindMember(electors, e.Peer, e.Incarnation)
			return in
		}
		if !c.MayFork(signs) {
			return Invalid("a fork by %d of %d electors: it takes more than half, or half with the senior",
				CountMembers(c.Electorate(), signs), len(c.Electorate()))
		}
		return nil
	}
	if stay := c.Staying(r.Members); stay != 0 && stay != len(r.Members) {
		return Invalid("a fork by %d members and %d others: members fork alone, and others only without any", stay,
			len(r.Members)-stay)
	}
	return nil
}

// Provisional is a fork that fewer than a quorum have made, where that took a majority. The branch
// that it began may end: a certificate of a quorum of the same electors comes before it.
type Provisional struct {
	Height   uint64        // of the record that was forked
	Electors []slot.Member // of that record
	Missing  []slot.Member // of these, the ones that are no electors of the tip
}

// Provisional returns the oldest fork of the chain that is provisional; false: there is none. A
// fork is provisional until the electors of one of the records after it include a quorum of those
// before it.
func (c *Chain) Provisional() (p Provisional, is bool) {
	if len(c.provisional) == 0 {
		return p, false
	}
	p = c.provisional[0]
	p.Missing = slices.DeleteFunc(slices.Clone(p.Electors), func(e slot.Member) bool {
		_, stays := FindMember(c.Electorate(), e.Peer, e.Incarnation)
		return stays
	})
	return p, true
}

// stillProvisional lists the forks that are provisional once a record follows the tip.
func (c *Chain) stillProvisional(r slot.Record) []Provisional {
	forks := slices.Clone(c.provisional)
	if r.Kind == slot.Fork && c.MajorityForks() {
		forks = append(forks, Provisional{Height: c.Height(), Electors: c.Electorate()})
	}
	electors := r.Electors()
	return slices.DeleteFunc(forks, func(p Provisional) bool {
		return c.rules.Quorum(p.Electors, func(e slot.Member) bool {
			_, stays := FindMember(electors, e.Peer, e.Incarnation)
			return stays
		})
	})
}
