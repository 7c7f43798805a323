package chain

import (
	"testing"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

func TestProgressToASeat(t *testing.T) {
	crash, five := seatRules(1), seatRules(1)
	crash.Byzantine = false
	five.MaxElectors = 4
	for _, c := range []struct {
		rules   Rules
		members string
		of      slot.PeerID
		want    Progress
		ok      bool
	}{
		{seatRules(1), "A32 b0", "b", Progress{Needed: 1}, true},
		{seatRules(1), "A32 b8", "b", Progress{Contributions: 1, Needed: 1}, true},
		{seatRules(1), "A32 B32 c0", "c", Progress{Needed: 1}, true},
		{seatRules(1), "A32 B32 C32 d8", "d", Progress{Contributions: 1, Needed: 4}, true},
		{seatRules(1), "A32 B32 C32 D32 e0", "e", Progress{Needed: 4, Others: 2}, true},
		{seatRules(1), "A32 B32 C32 D32 e24", "e", Progress{Contributions: 3, Needed: 4, Others: 2}, true},
		{seatRules(1), "A32 B32 C32 D32 e23", "e", Progress{Contributions: 2, Needed: 4, Others: 2}, true},
		{seatRules(1), "A32 B32 C32 D32 e99 f40 g31", "e", Progress{Contributions: 4, Needed: 4, Others: 1}, true},
		{seatRules(1), "A32 B32 C32 D32 e32 f40 g32 h9", "h", Progress{Contributions: 1, Needed: 4}, true},
		{five, "A32 B32 C32 D32 e8", "e", Progress{Contributions: 1, Needed: 4, Full: true}, true},
		{seatRules(1), "A32 b0", "a", Progress{}, false},
		{seatRules(1), "A32 b0", "x", Progress{}, false},
		{crash, "A32 B0", "b", Progress{}, false},
	} {
		tip := slot.Record{Members: parseMembers(t, c.members)}
		if got, ok := c.rules.ProgressOf(tip, c.of); got != c.want || ok != c.ok {
			t.Errorf("%s of %s: %+v, %v", c.of, c.members, got, ok)
		}
	}
}
