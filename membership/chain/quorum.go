package chain

import "github.com/p2pdiloco/p2pdiloco/internal/slot"

// fewMembers is the largest number of members that withstands no liar, whatever the quorum is. Up
// to it both values of trust have the same one.
const fewMembers = 3

// Quorum says whether the members that in returns true for decide a record for all of them. Each
// part of the ledger asks here, so that all go by one rule.
//
//   - If only crashes are to be withstood, or up to 3 members: more than half, or exactly half with
//     the senior. Two quorums share a member.
//   - If the run is Byzantine, from 4 members on: all but f = (n-1)/3, rounded down. Two quorums
//     share f+1 members. So they share an honest one, and f members can neither decide nor prevent
//     a decision.
func (r Rules) Quorum(members []slot.Member, in func(slot.Member) bool) bool {
	n := len(members)
	return CountMembers(members, in) >= r.Votes(n) || r.HalfDecides(n) && slot.Majority(members, in)
}

// Votes returns how many of n members are a quorum, whichever they are. Where a majority decides,
// exactly half with the senior are one as well.
func (r Rules) Votes(n int) int {
	if f := r.Liars(n); f > 0 {
		return n - f
	}
	return n/2 + 1
}

// HalfDecides says whether half of n members decide where the senior is one of them.
func (r Rules) HalfDecides(n int) bool { return n%2 == 0 && n > 0 && !r.byzantineAt(n) }

// Liars returns how many of n members may lie or be gone, while the others go on and nothing wrong
// is decided. It is 0 where only crashes are withstood, however many.
func (r Rules) Liars(n int) int {
	if r.byzantineAt(n) {
		return (n - 1) / 3
	}
	return 0
}

// Grows says whether the members of old that are in next are a quorum of next.
func (r Rules) Grows(old, next []slot.Member) bool {
	return r.Quorum(next, func(m slot.Member) bool {
		_, ok := FindMember(old, m.Peer, m.Incarnation)
		return ok
	})
}

func (r Rules) byzantineAt(n int) bool { return r.Byzantine && n > fewMembers }
