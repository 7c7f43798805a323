package chain

import (
	"strings"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

func TestNewcomersShareOfAPlan(t *testing.T) {
	for _, c := range []struct {
		name, members string
		share         uint64
		min           int
		offers, want  string
		before        []slot.PeerID
	}{
		{"half of the others", "A32 B32 C32 D32 w0 x0 y0 z0", 500, 1, "abcdwxyz", "abcdwx", nil},
		{"fewer others, fewer newcomers", "A32 B32 C32 D32 w0 x0 y0 z0", 500, 1, "abcwxyz", "abcw", nil},
		{"one is always taken", "A32 B32 C32 D32 w0 x0", 1, 1, "awx", "aw", nil},
		{"and without others", "A32 B32 C32 D32 w0 x0", 500, 1, "wx", "w", nil},
		{"as many as it takes", "A32 B32 C32 D32 w0 x0 y0 z0", 500, 4, "awxyz", "awxy", nil},
		{"most credit first", "A32 B32 C32 D32 w0 x8 y16 z7", 500, 1, "abcdwxyz", "abcdxy", nil},
		{"who earned a seat is no newcomer", "A32 B32 C32 D32 w32 x31 y0 z0", 500, 1, "abcdwxyz", "abcdwxy", nil},
		{"an elector with little credit neither", "A32 B32 C32 D0 w0 x0 y0", 500, 1, "abcdwxy", "abcdwx", nil},
		{"three have a share as well", "A32 B32 C32 w0 x0 y0 z0", 500, 1, "abcwxyz", "abcw", nil},
		{"who was there stays", "A32 B32 C32 D32 w9 x0 y0 z0", 500, 1, "abcdwxyz", "abcdwz", []slot.PeerID{"z"}},
		{"and uses it up", "A32 B32 C32 D32 w9 x0 y0 z0", 500, 1, "abcdwxyz", "abcdyz", []slot.PeerID{"z", "y"}},
		{"two take everybody", "A32 B8 w0 x0 y0 z0", 500, 1, "abwxyz", "abwxyz", nil},
	} {
		rules := seatRules(1)
		rules.NewcomerShare, rules.MinPeers = c.share, c.min
		w := found(t, rules, c.members)
		var offers []slot.Offer
		for _, p := range c.offers {
			offers = append(offers, slot.Offer{Peer: slot.PeerID(p)})
		}
		got := ""
		for _, o := range w.WithinShare(offers, c.before...) {
			got += string(o.Peer)
		}
		if got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
	crash := seatRules(1)
	crash.Byzantine = false
	if got := found(t, crash, "A0 B0 C0 D0 w0 x0").WithinShare(make([]slot.Offer, 9)); len(got) != 9 {
		t.Errorf("in trust crash a plan takes %d of 9", len(got))
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

// Strangers that earn nothing do not keep others out: newcomers of equal credit take turns.
func TestNewcomersTakeTurns(t *testing.T) {
	rules := seatRules(1)
	rules.NewcomerShare, rules.MinPeers = 500, 1
	w := found(t, rules, "A32 B32 C32 x0 y0 z0")
	taken := ""
	for range 9 {
		var offers []slot.Offer
		for _, p := range "abcxyz" {
			offers = append(offers, slot.Offer{Peer: slot.PeerID(p)})
		}
		names := ""
		for _, o := range w.WithinShare(offers) {
			names += string(o.Peer)
		}
		r := w.record(names, seatElements)
		for i, o := range r.Contributions {
			r.Contributions[i].NormSq = 1
			if o.Peer != "z" && o.Peer > "c" { // z alone is honest
				r.Contributions[i].NormSq = 100
			}
		}
		if got := w.add(r, Turnover{Listed: listedAs("abcxyz")}); strings.Contains(got, ErrInvalid.Error()) {
			t.Fatal(got)
		}
		taken += names[3:] + " "
	}
	if taken != "x y z z z z xyz xyz xyz " { // with four contributions z is no newcomer any more
		t.Errorf("newcomers are taken in the order %s", taken)
	}
}
