package membership

import (
	"slices"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/chain"
)

// A contributor that shows auditors nothing, slot after slot, costs ever fewer slots a reduction
// more, and a contributor that stops hiding counts again.
func TestAContributorThatHidesIsLeftOutForLonger(t *testing.T) {
	t.Parallel()
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
	if got := hs.out(0, m.planner.standing()); len(got) > 0 {
		t.Errorf("%s are left out of the slot in which they hid", labNames(got))
	}
	open := m.chain.OpenSlot()
	l.awaits(t, "something is decided", func() bool { return m.chain.OpenSlot() > open })
	if got := hs.out(0, m.planner.standing()); len(got) != 1 || got[0] == labID("A") {
		t.Errorf("%s are left out; want one other member", labNames(got))
	}
}

// Contributors with credit and no vote that are all too slow for the audits are left out, however
// many they are: the run goes on with the others, loses a term now and then, and takes them back
// once they show what they offer.
func TestTenSlowContributorsCostFewTerms(t *testing.T) {
	t.Parallel()
	l := auditedLab(t, "ABCD", func(r *chain.Rules) { r.MaxElectors, r.NewcomerShare = 4, 3000 })
	var slow []*labPeer
	for i := range 10 {
		slow = append(slow, l.add(string(rune('a'+i))))
	}
	l.connect()
	honest := l.peer("B").m
	credited := func(p *labPeer) bool {
		i := slot.Find(honest.chain.Members(), p.id)
		return i >= 0 && honest.chain.Members()[i].Credit >= 32 && !honest.chain.Members()[i].Elects()
	}
	all := func() bool { return !slices.ContainsFunc(slow, func(p *labPeer) bool { return !credited(p) }) }
	l.within(t, 10*time.Minute, "all have credit", all)
	for _, p := range slow {
		p.auditor.hides = "*"
	}
	began := honest.chain.OpenSlot()
	const slots = 24
	lost, groups := l.countGroups(t, slots, 5*time.Minute, 4, nil)
	again := 0
	for _, g := range groups {
		again += btoi(len(g) > 1)
	}
	t.Logf("%d of %d slots are reduced again", again, slots)
	if lost > again || again > slots/2 {
		t.Errorf("%d terms are lost, and %d of %d slots are reduced again", lost, again, slots)
	}
	for _, p := range l.peers[:4] {
		if n := len(contributed(l.peer("B"), p.id, began)); n < slots-2 {
			t.Errorf("%s counts in %d of %d slots", p.name, n, slots)
		}
	}
	for _, p := range slow {
		p.auditor.hides = ""
	}
	l.countGroups(t, slots, 5*time.Minute, 4, nil)
	for _, p := range slow {
		if n := len(contributed(l.peer("B"), p.id, began+slots)); n == 0 {
			t.Errorf("%s never counts again", p.name)
		}
	}
	l.onlyEvicted(t)
}
