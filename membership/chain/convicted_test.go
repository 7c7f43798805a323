package chain

import (
	"testing"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// TestWhoForksWithoutTheConvicted: of a fork that evicts more electors than may lie more than half
// of the others sign, or half with their senior, and more than may lie. Else one liar could say of
// all others that they are convicted, and fork by itself. The senior has rank A.
func TestWhoForksWithoutTheConvicted(t *testing.T) {
	for _, c := range []struct {
		electors, sign, evicted string
		may                     bool
	}{
		{"ABCD", "CD", "AB", true},      // all that are left
		{"ABCD", "CD", "A", false},      // one convicted is none too many: the others wait
		{"ABCD", "CD", "", false},       // half without the senior
		{"ABCD", "AB", "", true},        // with it
		{"ABCD", "D", "ABC", false},     // a liar alone
		{"ABCDE", "E", "ABCD", false},   // the same
		{"ABCDE", "DE", "ABC", true},    // two of five, of which one may lie
		{"ABCDE", "DE", "AB", true},     // two of the three that are left
		{"ABCDEFG", "EFG", "ABC", true}, // three of four
		{"ABCDEFG", "EF", "ABC", false}, // two may lie
	} {
		var electors []slot.Member
		for i, p := range c.electors {
			electors = append(electors, slot.Member{Peer: slot.PeerID(p), Incarnation: 1, Seat: uint64(1 + i)})
		}
		var evicted []slot.PeerID
		for _, p := range c.evicted {
			evicted = append(evicted, slot.PeerID(p))
		}
		in := func(e slot.Member) bool { return contains(c.sign, e.Peer) }
		if got := (Rules{Byzantine: true}).mayFork(electors, in, evicted); got != c.may {
			t.Errorf("%s of %s without %s: %v", c.sign, c.electors, c.evicted, got)
		}
	}
}

func contains(names string, p slot.PeerID) bool {
	for _, n := range names {
		if slot.PeerID(n) == p {
			return true
		}
	}
	return false
}
