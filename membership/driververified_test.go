package membership

import (
	"encoding/binary"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// TestVerifiedRemembersWhatIsGood: a good signature is checked once; anything else about it, and a
// bad one, is checked each time.
func TestVerifiedRemembersWhatIsGood(t *testing.T) {
	checks := 0
	v := newVerified(func(p slot.PeerID, data, sig []byte) bool {
		checks++
		return labVerify(p, data, sig)
	})
	data := []byte("data")
	good := labSign("a", data)
	for _, c := range []struct {
		name   string
		peer   slot.PeerID
		data   string
		sig    []byte
		want   bool
		checks int
	}{
		{"a good one", "a", "data", good, true, 1},
		{"it again", "a", "data", good, true, 0},
		{"of another peer", "b", "data", good, false, 1},
		{"of other data", "a", "date", good, false, 1},
		{"cut elsewhere", "ad", "ata", good, false, 1},
		{"a bad one", "a", "data", good[1:], false, 1},
		{"a bad one again", "a", "data", good[1:], false, 1},
	} {
		checks = 0
		if got := v.check(c.peer, []byte(c.data), c.sig); got != c.want || checks != c.checks {
			t.Errorf("%s: %v after %d checks", c.name, got, checks)
		}
	}
}

// TestVerifiedIsBounded: however many signatures come, about so many are remembered, the newest.
func TestVerifiedIsBounded(t *testing.T) {
	checks := 0
	v := newVerified(func(slot.PeerID, []byte, []byte) bool { checks++; return true })
	number := func(n int) []byte { return binary.BigEndian.AppendUint64(nil, uint64(n)) }
	const many = 3*maxVerified + 1
	for n := range many {
		v.check("a", number(n), nil)
	}
	if n := len(v.mu.newer) + len(v.mu.older); n > 2*maxVerified {
		t.Errorf("%d are remembered", n)
	}
	for n := many - maxVerified; n < many; n++ {
		v.check("a", number(n), nil)
	}
	if checks != many {
		t.Errorf("%d checks of %d signatures, and of the newest again", checks, many)
	}
	if v.check("a", number(0), nil); checks != many+1 {
		t.Error("the oldest is remembered")
	}
}
