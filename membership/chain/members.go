package chain

import "github.com/p2pdiloco/p2pdiloco/internal/slot"

// FindMember finds a peer in this very incarnation: a peer that lost the vote log is another member
// (HOLES H6).
func FindMember(members []slot.Member, p slot.PeerID, inc slot.Incarnation) (slot.Member, bool) {
	if i := slot.Find(members, p); i >= 0 && members[i].Incarnation == inc {
		return members[i], true
	}
	return slot.Member{}, false
}

// CountMembers counts the members for which in holds.
func CountMembers(members []slot.Member, in func(slot.Member) bool) (n int) {
	for _, e := range members {
		if in(e) {
			n++
		}
	}
	return n
}
