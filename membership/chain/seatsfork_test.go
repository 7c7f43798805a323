package chain

import (
	"slices"
	"strings"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// Electors that a fork left out may have their seats back at once.
func TestSeatsOfForks(t *testing.T) {
	settle := func(w world, listed []slot.Member, evicted ...slot.PeerID) (slot.Record, error) {
		r := w.record("", 0)
		r.Kind = slot.Fork
		r = w.SettleFork(r, Turnover{Listed: listed, Evicted: evicted})
		r.Work = w.Tip().Work
		return r, w.Check(r, 0)
	}
	w := found(t, seatRules(1), "A32 B32 C32 D7 e9 f99")
	signers := w.Electorate()[:3]
	r, err := settle(w, signers)
	if got := showMembers(r); got != "A32 B32 C32 d7 e9 f99" || err != nil {
		t.Fatalf("%s, %v", got, err)
	}
	for name, spoil := range map[string]func(*slot.Record){
		"a seat for another":   func(r *slot.Record) { r.Members[5].Seat = r.Height },
		"a newer seat":         func(r *slot.Record) { r.Members[0].Seat = r.Height },
		"credit":               func(r *slot.Record) { r.Members[3].Credit++ },
		"a member is left out": func(r *slot.Record) { r.Members = r.Members[:5] },
		"nobody has a seat": func(r *slot.Record) {
			r.Members[0].Seat, r.Members[1].Seat, r.Members[2].Seat = 0, 0, 0
		},
		"a member from nowhere": func(r *slot.Record) {
			r.Members = append(r.Members, slot.Member{Peer: "x", Since: r.Height})
		},
	} {
		bad := r
		bad.Members = slices.Clone(r.Members)
		spoil(&bad)
		if w.Check(bad, 0) == nil {
			t.Errorf("%s", name)
		}
	}
	if _, err := settle(w, w.Electorate()[:1]); err == nil || !strings.Contains(err.Error(), "a fork by 1 of 4") {
		t.Errorf("by one of four: %v", err)
	}
	if _, err := settle(w, w.Electorate()[1:3]); err == nil || !strings.Contains(err.Error(), "a fork by 2 of 4") {
		t.Errorf("by half of four without the senior: %v", err)
	}
	if r, err := settle(w, w.Electorate()[:2]); err != nil {
		t.Errorf("by half of four with the senior: %s, %v", showMembers(r), err)
	}
	if r, err := settle(w, signers, "d"); showMembers(r) != "A32 B32 C32 e9 f99 !d" || err != nil {
		t.Errorf("without D: %s, %v", showMembers(r), err)
	}
	w.Push(wire.Commit{Record: r})
	if got := w.list(w.record("", 0), "abcDef"); got != "A32 B32 C32 D7 e9 f99" {
		t.Errorf("a seat for D: %s", got)
	}

	w = found(t, seatRules(1), "A32 B32 C32 d8 e9 f0 g1")
	if r, err := settle(w, w.Members()[2:5]); showMembers(r) != "C32 d8 e9 (a32) (b32) (g1)" || err != nil {
		t.Errorf("by one of three, and others: %s, %v", showMembers(r), err)
	}
	if r, err := settle(w, w.Members()[3:]); showMembers(r) != "D8 E9 f0 G1 (a32) (b32) (c32)" || err != nil {
		t.Errorf("without any elector: %s, %v", showMembers(r), err)
	}
	if _, err := settle(w, listedAs("wxyz")); err == nil || !strings.Contains(err.Error(), "a fork by 4 peers") {
		t.Errorf("by strangers: %v", err)
	}
}
