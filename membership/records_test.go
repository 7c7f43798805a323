package membership

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// longLab is a run of four members whose oldest records are on disk alone.
func longLab(t *testing.T, byzantine bool) *lab {
	t.Helper()
	rules := labRules()
	rules.StartPeers, rules.MaxStaleness, rules.Byzantine = 4, 1, byzantine
	timing := labTiming
	timing.ForkAfter = 10 * time.Second
	l := newLab(t, rules, timing)
	for _, n := range "ABCD" {
		l.add(string(n))
	}
	l.connect()
	l.until(t, 110, l.peers...)
	for _, p := range l.peers {
		if p.m.chain.Floor() == 0 {
			t.Fatalf("%s holds all of %d records", p.name, p.m.chain.Height())
		}
	}
	return l
}

// until runs the lab until peers have applied a slot.
func (l *lab) until(t *testing.T, s uint64, peers ...*labPeer) {
	t.Helper()
	l.within(t, time.Hour, fmt.Sprintf("slot %d is applied by all", s), func() bool {
		return !slices.ContainsFunc(peers, func(p *labPeer) bool { return p.m.model.state.slot < s || !p.m.member() })
	})
}

// isolate lets peers talk to each other and to nobody else.
func (l *lab) isolate(names string) {
	l.filters = nil
	for _, p := range l.peers {
		if !strings.Contains(names, p.name) {
			l.filters = append(l.filters, &labFilter{from: p.name, left: -1}, &labFilter{to: p.name, left: -1})
		}
	}
}

func (l *lab) tells(what string) bool {
	return slices.ContainsFunc(l.log, func(s string) bool { return strings.Contains(s, what) })
}

// diskDiffers says whether a machine has words on other branches than its own that its disk lacks,
// or the other way round.
func diskDiffers(p *labPeer) bool {
	saved, err := p.store.Load()
	if err != nil {
		return false
	}
	for at, w := range p.m.pledges.kept {
		if d := saved.Elsewhere[at]; (d.Decided == nil) != (w.Decided == nil) || d.Floor() != w.Floor() {
			return true
		}
	}
	return len(saved.Elsewhere) != len(p.m.pledges.kept)
}

// holdsAll says whether a peer can show all records that another one has.
func holdsAll(t *testing.T, p, of *labPeer) {
	t.Helper()
	tip := min(p.m.chain.Height(), of.m.chain.Height())
	for h := uint64(1); h <= tip; h++ {
		if c, ok := p.m.Record(h); !ok || c.Record.Hash() != of.m.chain.Hash(h) {
			t.Fatalf("%s does not show record %d of %d, or another one", p.name, h, tip)
		}
	}
}

// A newcomer, and a member that comes back after long, fetch all records that they lack, and go on.
// What they have on disk is enough to go on again.
func TestAllRecordsAreFetched(t *testing.T) {
	t.Parallel()
	for _, byzantine := range []bool{false, true} {
		l := longLab(t, byzantine)
		for _, p := range l.peers {
			p.crash()
			p.start()
		}
		d, abc := l.peers[3], l.peers[:3]
		d.crash()
		away := abc[0].view().AppliedSlot
		l.until(t, away+110, abc...)
		e := l.add("E")
		d.start()
		l.connect()
		l.until(t, away+130, l.peers...)
		for _, p := range []*labPeer{d, e} {
			if p.m.chain.Floor() == 0 || p.view().ChainSwitches > 0 {
				t.Errorf("byzantine %v: %s holds all of %d records, or has moved", byzantine, p.name,
					p.m.chain.Height())
			}
			holdsAll(t, p, abc[0])
			p.crash()
			p.start()
		}
		l.connect()
		l.until(t, away+140, l.peers...)
	}
}

// One question is answered with so many records, and no byte more than it takes to reach the bound.
func TestAnAnswerHasItsBounds(t *testing.T) {
	l := longLab(t, false)
	m := l.peers[0].m
	answered := func(from uint64) (heights []uint64) {
		m.Ready()
		if err := m.catchup.onNeed(wire.Message{From: "q"}, wire.Need{From: from}); err != nil {
			t.Fatal(err)
		}
		for _, e := range m.Ready().Send {
			heights = append(heights, e.Body.(wire.Commit).Record.Height)
		}
		return heights
	}
	tip := m.chain.Height()
	for from, most := range map[uint64]uint64{1: commitsAtOnce, 20: commitsAtOnce, tip - 3: 4, tip: 1} {
		got := answered(from)
		if uint64(len(got)) != min(most, tip-from+1) || got[0] != from || got[len(got)-1] != from+uint64(len(got))-1 {
			t.Errorf("NEED(%d) is answered with %v", from, got)
		}
	}
	for _, from := range []uint64{0, tip + 1, math.MaxUint64} {
		if err := m.catchup.onNeed(wire.Message{From: "q"}, wire.Need{From: from}); err == nil {
			t.Errorf("NEED(%d) is answered", from)
		}
	}
	large := wire.Commit{Record: m.chain.Tip()}
	large.Certificate.Signatures = []slot.Signature{{Peer: "a", Sig: make([]byte, bytesAtOnce/3)}}
	n := need{from: 7}
	for i, ends := range []bool{false, false, true, false} {
		large.Record.Height = 7 + uint64(i)
		if n.ends(large) != ends {
			t.Errorf("record %d of %d bytes: ends the answer: %v", i, large.Size(), !ends)
		}
	}
}

// A ticket pins a record of any age. Who has one that the run has not says so, and does not join.
func TestPinsOfOldTickets(t *testing.T) {
	t.Parallel()
	for _, byzantine := range []bool{false, true} {
		l := longLab(t, byzantine)
		c := l.peers[0].m.chain
		l.pins = map[string]slot.Root{
			"E": c.Lasting(), // what changed who decides
			"F": c.TipHash(), // any other record
			"G": c.Hash(20),  // an old one
			"H": slot.Hash([]byte("no record ever")),
		}
		l.until(t, l.peers[0].view().AppliedSlot+120, l.peers...)
		for _, name := range []string{"E", "F", "G", "H"} {
			p, good := l.add(name), name != "H"
			l.connect()
			joined := l.run(40*time.Second, func() bool { return p.m.member() })
			if joined != good || joined && !p.m.chain.Pinned() {
				t.Errorf("%s joined: %v\n%s", name, joined, l.show())
			}
			if told := l.tells("does not have the pinned record"); told == good {
				t.Errorf("%s was told that the pin is not there: %v", name, told)
			}
		}
	}
}

// Two branches parted below what both hold in memory. The lone member that forked comes to the
// others by itself: they decided at that record, and have more work. It stays while its own branch
// has more, and a pin moves it then. What it decided on its branch is never forgotten.
func TestBranchesThatPartedLongAgo(t *testing.T) {
	t.Parallel()
	for _, heavy := range []bool{false, true} {
		l := longLab(t, false)
		d, abc := l.peers[3], l.peers[:3]
		if heavy {
			d.weight = 100
		}
		l.isolate("ABC")
		parted := d.m.chain.Height()
		l.until(t, abc[0].view().AppliedSlot+130, abc...)
		l.awaits(t, "the one that is cut off goes on alone", func() bool { return d.m.chain.Height() > parted+100 })
		l.filters = nil
		moved := l.run(time.Minute, func() bool { return d.view().ChainSwitches > 0 })
		if moved == heavy || l.tells("D run.switched") == heavy {
			t.Fatalf("heavy %v: it has moved: %v\n%s", heavy, moved, l.show())
		}
		if heavy {
			d.crash()
			l.pins = map[string]slot.Root{"D": abc[0].m.chain.Hash(parted + 40)}
			d.start()
			l.connect()
		}
		l.until(t, abc[0].view().AppliedSlot+10, l.peers...)
		for range 2 {
			if n := len(d.m.pledges.kept); n < 90 || diskDiffers(d) || d.m.clones.own != "" {
				t.Errorf("heavy %v: words at %d places are kept, cloned %q", heavy, n, d.m.clones.own)
			}
			holdsAll(t, d, abc[0])
			d.crash()
			d.start()
			l.connect()
		}
		l.until(t, abc[0].view().AppliedSlot+10, l.peers...)
	}
}

// In trust byzantine nobody gives up more than 64 heights by itself, and none of the records below
// are read for that: it says how to move this peer.
func TestABranchFromBelowWhatIsHeldIsRefused(t *testing.T) {
	t.Parallel()
	l := longLab(t, true)
	a := l.peers[0]
	old := a.m.chain.Height() - 100
	base, err := a.m.chain.Reread(old)
	if err != nil {
		t.Fatal(err)
	}
	f := &forger{labPeer: l.peers[3], chain: base, by: l.peers[:3]}
	for range 3 {
		f.add(slot.Record{
			Kind: slot.Members, Slot: f.chain.Tip().Slot, Members: f.chain.Members(), Work: f.chain.Tip().Work,
		})
	}
	a.m.competing.gathering = &branch{
		claim: wire.Alive{Height: f.chain.Height(), Tip: f.chain.TipHash(), Work: f.chain.Tip().Work}, from: labID("B"),
		base: old - 8,
	}
	for h := old - 7; a.m.competing.gathering != nil && h <= f.chain.Height(); h++ {
		c, err := f.chain.Read(h)
		if err != nil {
			t.Fatal(err)
		}
		if better, err := a.m.competing.extend(c); better != nil || err != nil {
			t.Fatalf("record %d moves this peer, or is bad: %v", h, err)
		}
		if a.m.competing.gathering != nil && a.m.competing.gathering.chain != nil {
			t.Fatal("the chain is read from disk")
		}
	}
	if a.m.competing.gathering != nil || !slices.Contains(a.m.competing.refused, f.chain.Hash(old+1)) {
		t.Errorf("it is not refused")
	}
}

// While a stranger's branch is gathered, one that a member announces is looked at: of the tip, or
// of those that decided before a fork which is not the run yet. Strangers, one after the other,
// would keep the two sides of a cut apart, by ALIVEs alone.
func TestABranchOfAMemberComesBeforeAStrangersBranch(t *testing.T) {
	for name, cut := range map[string]bool{"a member": false, "one that was cut off": true} {
		t.Run(name, func(t *testing.T) {
			l, say := hostileLab(t, "abc")
			a, b := l.peers[0], l.peers[1]
			if cut {
				f := &forger{labPeer: a, chain: a.m.chain.UpTo(a.m.chain.Height())}
				f.fork()
				a.m.switchTo(&branch{chain: f.chain, from: a.id}, a.m.chain.Height())
			}
			tip := a.m.chain.Tip()
			claim := func(n byte) wire.Alive {
				return wire.Alive{
					Branch: slot.Root{n}, Height: tip.Height + 5, Tip: slot.Root{n, 1}, Work: tip.Work + 1000,
					Synced: true, Applied: tip.Height + 5,
				}
			}
			gathers := func(from slot.PeerID) {
				t.Helper()
				if g := a.m.competing.gathering; g == nil || g.from != from {
					t.Errorf("it does not gather the branch of %s: %+v", labName(from), g)
				}
			}
			_ = say(a, "stranger", 1, claim(9))
			gathers(labID("stranger"))
			_ = say(a, "another", 1, claim(8))
			gathers(labID("stranger"))
			_ = say(a, "b", b.inc, claim(7))
			gathers(b.id)
			_ = say(a, "c", l.peers[2].inc, claim(6))
			gathers(b.id)
			_ = say(a, "another", 1, claim(5))
			gathers(b.id)
		})
	}
}
