package report

import (
	"strings"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

func TestClocksOf(t *testing.T) {
	type others = []time.Duration
	const fast, slow, little = 90 * time.Minute, -90 * time.Minute, 50 * time.Second
	for name, c := range map[string]struct {
		others []time.Duration
		off    time.Duration
		peers  int
		says   string // "" for nothing
	}{
		"alone":               {},
		"all agree":           {others: others{0, little, -little}},
		"this one is fast":    {others: others{slow, slow}, off: fast, says: "machine's clock is 1h30m0s ahead"},
		"this one is slow":    {others: others{fast, fast, fast}, off: slow, says: "machine's clock is 1h30m0s behind"},
		"another one is fast": {others: others{0, fast}, peers: 1, says: "1h30m0s ahead of the others'"},
		"one of two is wrong": {others: others{slow}, peers: 1, says: "one of the two is wrong"},
		"as many as not":      {others: others{0, fast, fast}, peers: 2, says: "ahead of the others'"},
		"this one and more":   {others: others{slow, slow, slow, fast}, off: fast, peers: 1, says: "3h0m0s ahead"},
		"many": {
			others: others{0, 0, 0, 0, 0, 0, 0, 0, fast, fast, fast, fast, fast, fast}, peers: 6,
			says: "and 2 more are off",
		},
	} {
		offsets := make(map[slot.PeerID]time.Duration)
		for i, o := range c.others {
			offsets[slot.PeerID([]byte{byte('a' + i)})] = o
		}
		s := ClocksOf(offsets)
		if c.says == "" {
			if s != nil {
				t.Errorf("%s: %+v", name, s)
			}
			continue
		}
		if s == nil || s.Off != c.off || len(s.Peers) != c.peers || !strings.Contains(s.Detail, c.says) ||
			!strings.Contains(s.Detail, "NTP") {
			t.Errorf("%s: %+v", name, s)
		}
	}
}

func TestSameClocks(t *testing.T) {
	peer := slot.PeerID("a")
	one := ClocksOf(map[slot.PeerID]time.Duration{peer: time.Hour})
	for _, c := range []struct {
		a, b *ClockStatus
		want bool
	}{
		{nil, nil, true},
		{one, nil, false},
		{nil, one, false},
		{one, ClocksOf(map[slot.PeerID]time.Duration{peer: 2 * time.Hour}), true},
		{one, ClocksOf(map[slot.PeerID]time.Duration{peer: -time.Hour}), false},
		{one, ClocksOf(map[slot.PeerID]time.Duration{"b": time.Hour}), false},
	} {
		if SameClocks(c.a, c.b) != c.want {
			t.Errorf("%+v and %+v: want %v", c.a, c.b, c.want)
		}
	}
}
