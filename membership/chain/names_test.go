package chain

import (
	"fmt"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/testlevel"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// nameFlood has strangers in lists of a thousand join a record, and leave with the next step: with
// each step one list, whose members have contributed or have not.
func nameFlood(private bool, steps int, contribute func(step int) bool) (s state) {
	rules := Rules{Private: private}
	s = newState(rules)
	tip := slot.Record{}
	for i := range steps {
		r := slot.Record{Kind: slot.Step, Height: uint64(i + 1), Slot: uint64(i + 1)}
		for j := range 1000 {
			p := slot.PeerID(fmt.Sprintf("%04d-%03d", i, j))
			r.Members = append(r.Members, slot.Member{Peer: p, Incarnation: 1})
		}
		if contribute(i) {
			for _, m := range tip.Members {
				r.Contributions = append(r.Contributions, slot.Offer{Peer: m.Peer, Slot: r.Slot, Seq: 1, Weight: 1})
			}
		}
		s.follow(rules, r, slot.Root{byte(i)}, tip)
		tip = r
	}
	return s
}

// TestNamesAreForgotten: strangers that come and go by the thousand leave nothing behind. Of those
// that contributed, and of former members of a private run, the newest are remembered. Without the
// bound the summary of a chain grows for ever, until nobody can read it.
func TestNamesAreForgotten(t *testing.T) {
	never, always := func(int) bool { return false }, func(int) bool { return true }
	if s := nameFlood(false, 5, never); len(s.access.ever) != 1000 {
		t.Errorf("of visitors of an open run %d are remembered, of them 1000 are members", len(s.access.ever))
	}
	steps := maxNames/1000 + 4
	for name, c := range map[string]struct {
		private    bool
		contribute func(int) bool
	}{
		"open, all contribute":  {false, always},
		"private, nobody does":  {true, never},
		"private, all do":       {true, always},
		"private, the first do": {true, func(i int) bool { return i < 3 }},
	} {
		s := nameFlood(c.private, steps, c.contribute)
		if n := len(s.access.ever); n != maxNames+1000 {
			t.Errorf("%s: %d names are remembered", name, n)
		}
		first := s.access.Ever("0000-000")
		if want := name == "private, the first do"; first != want || s.newcomers.Contributed("0000-000") != want {
			t.Errorf("%s: the first visitor is remembered: %v", name, first)
		}
		if newest := slot.PeerID(fmt.Sprintf("%04d-000", steps-2)); !s.access.Ever(newest) {
			t.Errorf("%s: the newest visitor is forgotten", name)
		}
		got, err := parseSummary(Rules{}, s.append(nil), maxEntries)
		if err != nil || summaryHash(got.append(nil)) != summaryHash(s.append(nil)) {
			t.Errorf("%s: the summary is not read back: %v", name, err)
		}
	}
}

// TestOwnSummariesAreRead: a peer that has followed records to more entries than it takes from
// others goes on from there. It could not start again, and ended while it ran.
func TestOwnSummariesAreRead(t *testing.T) {
	w := newSignedWorld(signedRules(false, 16))
	for range MaxSiblingAge + 40 {
		w.step()
	}
	p, pruned := w.Prune(0)
	if !pruned {
		t.Fatal("nothing is pruned")
	}
	// as an earlier release left it
	s := w.UpTo(w.Start()).state
	bound := testlevel.Choose(100, 100, maxEntries) // the true one takes ten seconds
	for i := range bound + 1 {
		s.access.ever[slot.PeerID(fmt.Sprintf("%08d", i))] = 1
	}
	p.Summary = s.append(nil)
	c, err := Resume(w.rules, slot.Root{}, &p, w.Commits())
	if err != nil {
		t.Fatal(err)
	}
	if c.UpTo(c.Start()).Height() != w.Start() {
		t.Error("the chain is not taken back to its summary")
	}
	window := w.Commits()[:p.Height-p.Floor]
	if _, err := begin(w.rules, slot.Root{}, newPast(w.rules.Run, p), window, bound); err == nil {
		t.Error("a summary of somebody else's has no bound")
	}
}

// TestDecisionsAreBounded: a quorum of strangers cannot decide so much that what newcomers fetch
// grows for ever.
func TestDecisionsAreBounded(t *testing.T) {
	a := newAccess()
	for i := range maxDecided {
		a.turns[slot.PeerID(fmt.Sprint(i))] = 1
	}
	for p, full := range map[slot.PeerID]bool{"0": false, "other": true, "": true} {
		if a.full(slot.Decision{Peer: p}) != full {
			t.Errorf("of %q: full %v", p, !full)
		}
	}
	c := New(Rules{MinPeers: 1}, slot.Root{})
	c.Push(wire.Commit{Record: slot.Record{Kind: slot.Fork, Height: 1, Members: []slot.Member{{Peer: "x"}}}})
	c.access = a
	d := []slot.Decision{{Action: slot.Remove, Peer: "other"}}
	if err := c.CheckAccess(slot.Record{Kind: slot.Access, Height: 2, Decisions: d}); err == nil ||
		err.Error() != "breaks the rules of the ledger: more decisions about peers than a run may "+
			"have: a new run is due" {
		t.Errorf("one more decision: %v", err)
	}
}
