package chain

import (
	"cmp"
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

// ForkMembers lists the members of a fork of the tip, from those that are to be its members in
// trust crash. In trust byzantine
//
//   - where it takes a majority, they sign, and keep their seats. All other members stay, and lose
//     theirs;
//   - else the electors of the tip among them keep their seats, and the others get none. If there
//     is no elector left, the first three of them get seats.
//
// Those with a seat sign.
func (c *Chain) ForkMembers(forkers []slot.Member) []slot.Member {
	if !c.rules.Byzantine || c.Height() == 0 {
		return forkers
	}
	seated := c.seatsAfterFork(forkers)
	members := slices.Clone(forkers)
	if c.MajorityForks() {
		members = slices.Clone(c.Members())
	}
	for i, m := range members {
		members[i].Seat = seated[m.Peer]
	}
	return members
}

// seatsAfterFork says since when the members of a fork have their seats, by peer.
func (c *Chain) seatsAfterFork(forkers []slot.Member) map[slot.PeerID]uint64 {
	seats := map[slot.PeerID]uint64{}
	for _, e := range c.Electorate() {
		if _, stays := FindMember(forkers, e.Peer, e.Incarnation); stays {
			seats[e.Peer] = e.Seat
		}
	}
	if len(seats) > 0 {
		return seats
	}
	first := slices.SortedFunc(slices.Values(forkers), func(a, b slot.Member) int {
		return cmp.Or(cmp.Compare(a.Since, b.Since), cmp.Compare(a.Peer, b.Peer))
	})
	for _, m := range first[:min(len(first), fewMembers)] {
		seats[m.Peer] = c.Height() + 1
	}
	return seats
}

// checkFork enforces which peers may fork the tip together, and what becomes of the others. Anybody
// may found a run.
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
		if !slices.Equal(r.Members, c.ForkMembers(electors)) {
			return Invalid("a fork that changes more than which electors have a seat")
		}
		return nil
	}
	if stay := c.Staying(r.Members); stay != 0 && stay != len(r.Members) {
		return Invalid("a fork by %d members and %d others: members fork alone, and others only without any", stay,
			len(r.Members)-stay)
	}
	if !slices.Equal(r.Members, c.ForkMembers(r.Members)) {
		return Invalid("a fork with seats for others than the electors that are left")
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
