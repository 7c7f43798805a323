package membership

import (
	"slices"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// A contributor that shows auditors nothing, slot after slot, costs ever fewer slots a reduction
// more, and a contributor that stops hiding counts again.
func TestAContributorThatHidesIsLeftOutForLonger(t *testing.T) {
	l := auditedLab(t, "ABCD")
	bad := l.peer("D")
	bad.auditor.hides = "*"
	honest := l.peer("A")
	began := honest.m.chain.OpenSlot()
	slots := func(n uint64) bool {
		return l.run(10*time.Minute, func() bool { return honest.m.chain.Tip().Slot >= n })
	}
	if !slots(12) {
		t.Fatalf("12 slots are not decided\n%s", l.show())
	}
	before := l.audits.dark
	if !slots(60) {
		t.Fatalf("60 slots are not decided\n%s", l.show())
	}
	if l.audits.dark == 0 || l.audits.dark-before > 3*len(l.peers)*4 {
		t.Errorf("in slots 13 to 60 electors miss a contribution %d times, %d before", l.audits.dark-before, before)
	}
	if listed := contributed(honest, bad.id, began+1); len(listed) > 0 {
		t.Errorf("what it did not show counts in slots %v", listed)
	}
	bad.auditor.hides = ""
	if !slots(110) {
		t.Fatalf("110 slots are not decided\n%s", l.show())
	}
	if listed := contributed(honest, bad.id, 61); len(listed) < 20 {
		t.Errorf("once it shows its contributions they count in %d of 50 slots", len(listed))
	}
	l.onlyEvicted(t)
}

// contributed lists the slots, from one on, in which a peer's contribution counts.
func contributed(p *labPeer, by slot.PeerID, from uint64) (slots []uint64) {
	for _, c := range p.m.chain.Commits() {
		if c.Record.Kind == slot.Step && c.Record.Slot >= from &&
			slices.Contains(offerers(c.Record.Contributions), by) {
			slots = append(slots, c.Record.Slot)
		}
	}
	return slots
}

// A leader never leaves out more members than may lie: the others would not follow its plan.
func TestNoMoreHidersThanLiarsAreLeftOut(t *testing.T) {
	l := auditedLab(t, "ABCD")
	m := l.peer("A").m
	hs := m.planner.hiders
	for _, name := range []string{"A", "B", "C", "D", "Z"} {
		hs.note(labID(name))
	}
	if got := hs.out(); len(got) > 0 {
		t.Errorf("%s are left out of the slot in which they hid", labNames(got))
	}
	open := m.chain.OpenSlot()
	if !l.run(time.Minute, func() bool { return m.chain.OpenSlot() > open }) {
		t.Fatal("nothing is decided")
	}
	if got := hs.out(); len(got) != 1 || got[0] == labID("A") {
		t.Errorf("%s are left out; want one other member", labNames(got))
	}
}
