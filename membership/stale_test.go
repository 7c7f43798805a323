package membership

import (
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/chain"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// HOLES H24: a contribution that missed its slot is offered for the next one, with its old base,
// while it is fresh enough; listed once it is spent, whole, and no offer of it, old or said again,
// enters another record.
func TestH24AStaleContributionCountsOnce(t *testing.T) {
	rules := labRules()
	rules.MaxStaleness = 2
	l := newLab(t, rules, labTiming)
	l.shuffle(2) // C leads neither of the slots that are to be without it
	l.adds("ABC")
	a, c := l.peers[0], l.peers[2]
	until := func(what string, ok func() bool) {
		t.Helper()
		l.awaits(t, what, ok)
	}
	until("three members", func() bool { return len(a.m.chain.Electorate()) == 3 && a.m.View().AppliedSlot > 1 })
	c.trains = false
	late := &labFilter{from: "C", kind: "offer", left: -1}
	l.filters = []*labFilter{late}
	root, base := slot.Hash([]byte("late")), c.m.chain.OpenSlot()-1
	c.report(ReportOffer{Slot: base + 1, Base: base, Weight: 10, Root: root})
	until("a slot without it", func() bool { return c.m.chain.OpenSlot() == base+2 })
	if o := c.m.own.mine; o == nil || o.Slot != base+2 || o.Base != base || o.Root != root {
		t.Fatalf("its standing offer is %+v", o)
	}
	old := *c.m.own.mine
	late.left = 0
	listed := func() (n int) {
		for _, k := range a.m.chain.Commits() {
			for _, o := range k.Record.Contributions {
				if o.Peer == c.id && o.Base <= base && o.Slot > base {
					if n++; o.Root == root && (o.Base != base || o.Slot-1-o.Base > 2) {
						t.Errorf("listed as %+v", o)
					}
				}
			}
		}
		return n
	}
	until("listed", func() bool { return listed() > 0 && c.m.chain.Height() >= a.m.chain.Height() })
	if c.m.own.mine != nil {
		t.Error("it still stands after it was spent")
	}
	for range 5 {
		_ = a.step(labSigned(c, wire.Offer{Offer: old}))
		for _, again := range []slot.Offer{
			old,
			{Peer: c.id, Slot: a.m.chain.OpenSlot(), Seq: old.Seq, Base: base, Weight: 10, Root: root},
		} {
			if a.m.chain.CheckOffer(again) == nil {
				t.Errorf("%+v may enter slot %d", again, a.m.chain.OpenSlot())
			}
		}
		l.rests(time.Second)
	}
	if n := listed(); n != 1 {
		t.Errorf("listed %d times", n)
	}
	// Nobody took it in time: it is dropped.
	l.filters = []*labFilter{{from: "C", kind: "offer", left: -1}}
	base = c.m.chain.OpenSlot() - 1
	c.report(ReportOffer{Slot: base + 1, Base: base, Weight: 10, Root: slot.Hash([]byte("later"))})
	until("too stale", func() bool { return c.m.chain.OpenSlot() > base+4 })
	if c.m.own.mine != nil {
		t.Errorf("still offered in slot %d: %+v", c.m.chain.OpenSlot(), *c.m.own.mine)
	}
}

// HOLES H23: what is voted on is the record alone: proposed in another ballot, by another leader,
// it has the same hash.
func TestH23ARecordKeepsItsHashOverBallots(t *testing.T) {
	l := labOf(t, "ABC")
	m := l.peers[0].m
	r := slot.Record{Run: l.rules.Run, Height: 9, Kind: slot.Members, Members: m.chain.Electorate()}
	if a, b := draftOf(0, r, nil), draftOf(7, r, nil); a.Hash != b.Hash {
		t.Error("the ballot is part of the record")
	}
}

// HOLES H28: the choice between two chains depends on the chains alone: it is one order, whoever
// compares and in whatever order.
func TestH28TheChoiceIsOneOrder(t *testing.T) {
	l := agedLab(t, 6)
	base := l.peers[0].m.chain
	var chains []*chain.Chain
	for i := range 6 { // of equal work, of more, from several records
		f := newForger(l, base, base.Height()-uint64(i%3)-1)
		f.steps(i % 4)
		chains = append(chains, f.chain)
	}
	better := func(a, b *chain.Chain) bool {
		m := machineOn(Config{
			Self: labID("X"), Rules: l.rules, Timing: labTiming, Plan: labPlanner,
			Verify: labVerify,
		}, wire.Saved{}, nil)
		m.chain = b
		m.openNext()
		return m.competing.prefers(a)
	}
	for i, a := range chains {
		for j, b := range chains {
			if i == j || a.TipHash() == b.TipHash() || a.CommonHeight(b) == min(a.Height(), b.Height()) {
				continue
			}
			if better(a, b) == better(b, a) {
				t.Errorf("%d and %d: neither, or both, are better", i, j)
			}
			for k, c := range chains {
				apart := k != i && k != j && c.CommonHeight(a) < min(c.Height(), a.Height()) &&
					c.CommonHeight(b) < min(c.Height(), b.Height())
				if apart && better(a, b) && better(b, c) && !better(a, c) {
					t.Errorf("%d over %d over %d, but not over it", i, j, k)
				}
			}
		}
	}
}
