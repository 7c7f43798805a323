package chain

import (
	"testing"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

func TestNewcomersShareOfAPlan(t *testing.T) {
	for _, c := range []struct {
		name, members string
		share         uint64
		min           int
		offers, want  string
	}{
		{"half of the others", "A32 B32 C32 D32 w0 x0 y0 z0", 500, 1, "abcdwxyz", "abcdwx"},
		{"fewer others, fewer newcomers", "A32 B32 C32 D32 w0 x0 y0 z0", 500, 1, "abcwxyz", "abcw"},
		{"one is always taken", "A32 B32 C32 D32 w0 x0", 1, 1, "awx", "aw"},
		{"and without others", "A32 B32 C32 D32 w0 x0", 500, 1, "wx", "w"},
		{"as many as it takes", "A32 B32 C32 D32 w0 x0 y0 z0", 500, 4, "awxyz", "awxy"},
		{"most credit first", "A32 B32 C32 D32 w0 x8 y16 z7", 500, 1, "abcdwxyz", "abcdxy"},
		{"who earned a seat is no newcomer", "A32 B32 C32 D32 w32 x31 y0 z0", 500, 1, "abcdwxyz", "abcdwxy"},
		{"an elector with little credit neither", "A32 B32 C32 D0 w0 x0 y0", 500, 1, "abcdwxy", "abcdwx"},
		{"three withstand no liar", "A32 B32 C32 w0 x0 y0 z0", 500, 1, "abcwxyz", "abcwxyz"},
	} {
		rules := seatRules(1)
		rules.NewcomerShare, rules.MinPeers = c.share, c.min
		w := found(t, rules, c.members)
		var offers []slot.Offer
		for _, p := range c.offers {
			offers = append(offers, slot.Offer{Peer: slot.PeerID(p)})
		}
		got := ""
		for _, o := range w.WithinShare(offers) {
			got += string(o.Peer)
		}
		if got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
	w := found(t, seatRules(1), "A32 B32 C32 D0 w0 x1")
	few := found(t, seatRules(1), "A32 B32 C0 w0")
	for p, want := range map[slot.PeerID]bool{"a": true, "d": true, "w": false, "x": true, "nobody": false} {
		if w.MayOwn(p) != want {
			t.Errorf("%s may own pieces: %v", string(p), !want)
		}
	}
	if !few.MayOwn("w") {
		t.Error("with three electors a newcomer may not own pieces")
	}
}
