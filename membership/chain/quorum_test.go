package chain

import (
	"math/bits"
	"strings"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// listed makes members of letters, the first of which has been one for longest.
func listed(letters string) (ms []slot.Member) {
	for i, c := range letters {
		ms = append(ms, slot.Member{Peer: slot.PeerID(c), Incarnation: 1, Since: uint64(i + 1)})
	}
	return ms
}

var crash, byzantine = Rules{}, Rules{Byzantine: true}

func TestQuorum(t *testing.T) {
	for _, c := range []struct {
		rules       Rules
		members, in string
		want        bool
	}{
		{crash, "", "", false},
		{crash, "a", "a", true},
		{crash, "ab", "a", true},
		{crash, "ab", "b", false},
		{crash, "abcd", "ab", true},
		{crash, "abcd", "bc", false},
		{crash, "abcde", "cde", true},
		{crash, "abcdefg", "defg", true},
		{crash, "abcdefg", "efg", false},
		{byzantine, "", "", false},
		{byzantine, "a", "a", true},
		{byzantine, "ab", "a", true},
		{byzantine, "ab", "b", false},
		{byzantine, "abc", "bc", true},
		{byzantine, "abc", "a", false},
		{byzantine, "abcd", "ab", false}, // half with the senior are none any more
		{byzantine, "abcd", "bcd", true},
		{byzantine, "abcde", "abc", false}, // 3 of 5 meet 3 of 5 in one member, who may lie
		{byzantine, "abcde", "bcde", true},
		{byzantine, "abcdef", "abcd", false},
		{byzantine, "abcdef", "bcdef", true},
		{byzantine, "abcdefg", "abcd", false},
		{byzantine, "abcdefg", "cdefg", true},
		{byzantine, "abcdefgh", "cdefg", false},
		{byzantine, "abcdefgh", "cdefgh", true},
		{byzantine, "abcdefghij", "abcdef", false},
		{byzantine, "abcdefghij", "defghij", true},
	} {
		in := func(m slot.Member) bool { return strings.Contains(c.in, string(m.Peer)) }
		if got := c.rules.Quorum(listed(c.members), in); got != c.want {
			t.Errorf("byzantine %v: %q of %q: %v", c.rules.Byzantine, c.in, c.members, got)
		}
	}
}

func TestVotes(t *testing.T) {
	for _, c := range []struct{ n, crash, byzantine int }{
		{1, 1, 1},
		{2, 2, 2},
		{3, 2, 2},
		{4, 3, 3},
		{5, 3, 4},
		{6, 4, 5},
		{7, 4, 5},
		{10, 6, 7},
		{13, 7, 9},
		{31, 16, 21},
	} {
		if a, b := crash.Votes(c.n), byzantine.Votes(c.n); a != c.crash || b != c.byzantine {
			t.Errorf("%d members: %d and %d votes, want %d and %d", c.n, a, b, c.crash, c.byzantine)
		}
	}
}

// Two quorums share f+1 members, and all but f are a quorum.
func TestByzantineQuorumsShareAnHonestMember(t *testing.T) {
	for n := 4; n <= 10; n++ {
		ms, f := listed("abcdefghij"[:n]), (n-1)/3
		var quorums []uint
		for set := range uint(1) << n {
			if byzantine.Quorum(ms, func(m slot.Member) bool { return set>>(m.Peer[0]-'a')&1 == 1 }) {
				quorums = append(quorums, set)
			} else if bits.OnesCount(set) >= n-f {
				t.Errorf("%d members: %b is no quorum", n, set)
			}
		}
		for _, x := range quorums {
			for _, y := range quorums {
				if bits.OnesCount(x&y) <= f {
					t.Fatalf("%d members: %b and %b share no more than %d", n, x, y, f)
				}
			}
		}
	}
}

func TestGrows(t *testing.T) {
	for _, c := range []struct {
		old, next        string
		crash, byzantine bool
	}{
		{"a", "ab", true, true},
		{"ab", "abc", true, true},
		{"ab", "abcd", true, false}, // the senior and one other are half of 4
		{"abc", "abcd", true, true},
		{"abc", "abcde", true, false},
		{"abcd", "abcde", true, true},
		{"abcd", "abcdef", true, false},
		{"abcde", "abcdefg", true, true},
		{"abcde", "abcdefgh", true, false},
		{"abcd", "bcdx", true, true},
		{"abcd", "abx", true, true},
		{"abcd", "abxy", true, false},
	} {
		old, next := listed(c.old), listed(c.next)
		for i, m := range next {
			if j := slot.Find(old, m.Peer); j >= 0 {
				next[i] = old[j]
			} else {
				next[i].Since = 100
			}
		}
		if a, b := crash.Grows(old, next), byzantine.Grows(old, next); a != c.crash || b != c.byzantine {
			t.Errorf("%s -> %s: %v and %v", c.old, c.next, a, b)
		}
	}
	again := listed("ab")
	again[1].Incarnation++
	if crash.Grows(listed("ab"), again[1:]) {
		t.Error("a peer in another incarnation counts as an old member")
	}
}
