package membership

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/chain"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

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

// Three of four members go on; the one that was cut off forks, and gives its branch up when it
// comes back. Its records, and what it said beside the run, go from memory and disk once the run
// has a summary above them. Until then they bind it.
func TestABranchGivenUpIsForgotten(t *testing.T) {
	t.Parallel()
	l := forgetful(t, false)
	d, abc := l.peers[3], l.peers[:3]
	l.isolate("ABC")
	parted := d.m.chain.Height()
	l.awaits(t, "the one that is cut off goes on alone", func() bool { return d.m.chain.Height() > parted+20 })
	l.filters = nil
	l.awaits(t, "it comes back", func() bool { return d.view().ChainSwitches > 0 })
	if len(d.m.pledges.kept) < 20 || diskDiffers(d) {
		t.Errorf("words at %d places are kept while it may be taken back there", len(d.m.pledges.kept))
	}
	l.until(t, abc[0].view().AppliedSlot+130, l.peers...)
	for range 2 {
		if n := len(d.m.pledges.kept); n > 0 || diskDiffers(d) {
			t.Errorf("words at %d places are kept of a branch below height %d, with a summary at %d", n, parted+30,
				d.m.chain.Start())
		}
		d.crash()
		d.start()
	}
}

// votedTwice takes two members back to a record that they have forgotten, with the one that stopped
// there, by the pin of an old ticket, and has them go on from it. move takes a peer there whatever
// the rules say; nil: the rules decide.
func votedTwice(t *testing.T, move func(p *labPeer, to *chain.Chain)) *lab {
	t.Helper()
	l := forgetful(t, false)
	d, abc := l.peers[3], l.peers[:3]
	d.crash()
	l.until(t, abc[0].view().AppliedSlot+130, abc...)
	for _, p := range abc {
		p.crash()
	}
	d.start()
	stale := d.m.chain // it gets no others
	l.filters = []*labFilter{{from: "A,B", to: "D", kind: "commit,past", left: -1}}
	for _, p := range abc[:2] {
		l.pins = map[string]slot.Root{p.name: stale.TipHash()}
		p.start()
		if p.m.chain.Pinned() || p.m.chain.Start() <= stale.Height() {
			t.Fatalf("%s has not forgotten the pin", p.name)
		}
		if move != nil {
			move(p, stale)
		}
	}
	l.connect()
	l.run(30*time.Second, func() bool { return len(l.watch.faults) > 0 || l.tells("move ledger.log") })
	l.rests(10 * time.Second)
	return l
}

// A peer forgets what it voted at heights up to its summary. A pin would take it back there, where
// it votes a second time: it stays where it is, and says what to do (HOLES H32). Without the rule
// two records are certified at one height.
func TestNobodyVotesWhereItsVotesAreForgotten(t *testing.T) {
	t.Parallel()
	l := votedTwice(t, nil)
	if len(l.watch.faults) > 0 || !l.tells("move ledger.log and state/ away") {
		t.Errorf("faults %q\n%s", l.watch.faults, l.show())
	}
	for _, p := range l.peers[:2] {
		if p.view().ChainSwitches > 0 || p.m.clones.own != "" {
			t.Errorf("%s has moved %d times, or is cloned: %q", p.name, p.view().ChainSwitches, p.m.clones.own)
		}
	}
	l = votedTwice(t, func(p *labPeer, to *chain.Chain) {
		c, err := chain.Resume(to.Rules(), to.TipHash(), to.Past(), to.Commits())
		if err != nil {
			t.Fatal(err)
		}
		p.m.switchTo(&branch{chain: c, from: labID("D")}, p.m.chain.CommonHeight(c))
		p.flush()
	})
	if len(l.watch.faults) == 0 {
		t.Errorf("without the rule nothing happens\n%s", l.show())
	}
}

// An operator takes a peer to a branch that parted below what it remembers. It has signed some of
// the records there, and has forgotten that: it is no clone, and does not move. Without its log it
// comes to the branch as a new member.
func TestAPinBelowWhatIsHeld(t *testing.T) {
	t.Parallel()
	for _, archives := range [][]string{nil, {"D"}} {
		l := forgetful(t, false, archives...)
		a, d, abc := l.peers[0], l.peers[3], l.peers[:3]
		d.weight = 100
		l.isolate("ABC")
		parted := d.m.chain.Height()
		l.until(t, a.view().AppliedSlot+130, abc...)
		if !l.run(time.Minute, func() bool { return d.m.chain.Height() > parted+20 }) || a.m.chain.Floor() <= parted {
			t.Fatalf("the one that was cut off does not go on alone, or the others hold where\n%s", l.show())
		}
		l.isolate("AD")
		a.crash()
		l.pins = map[string]slot.Root{"A": d.m.chain.LastingAbove(parted)}
		a.start()
		l.connect()
		l.until(t, d.view().AppliedSlot+20, d)
		if a.m.clones.own != "" || a.view().ChainSwitches > 0 || !l.tells("move ledger.log and state/ away") ||
			l.tells("is not shown") {
			t.Errorf("archives %q: cloned %q, moved %d times\n%s", archives, a.m.clones.own,
				a.view().ChainSwitches, l.show())
		}
		a.crash()
		a.format()
		a.start()
		l.connect()
		l.until(t, d.view().AppliedSlot+20, a, d)
		if len(l.watch.faults) > 0 {
			t.Error(l.watch.faults)
		}
	}
}

// A peer that has forked its tip by itself is shown the beginning of its chain, from a summary on,
// with more work than the fork: a fork costs some. It does not go back there, and looks at what
// comes after it.
func TestNobodyMovesToAnAncestor(t *testing.T) {
	m := forgetful(t, false).peers[0].m
	before := m.chain.UpTo(m.chain.Height())
	self, _ := chain.FindMember(m.chain.Members(), m.cfg.Self, m.cfg.Incarnation)
	m.chain.Push(wire.Commit{Record: m.fork.draft([]slot.Member{self})})
	for _, claimed := range []uint64{before.Height(), before.Height() + 5} {
		shown := &branch{claim: wire.Alive{Height: claimed, Tip: before.TipHash(), Work: before.Tip().Work}}
		m.competing.gathering = shown
		if own := m.chain; !own.ForkedFrom(before) || before.Tip().Work <= own.Tip().Work {
			t.Fatal("the fork does not cost anything")
		}
		m.onOpened(ReportOpened{of: shown, chain: before})
		if m.chain.TipHash() == before.TipHash() || (m.competing.gathering != nil) != (claimed > before.Height()) {
			t.Errorf("claimed %d: it moves, or does not look on", claimed)
		}
	}
}

// A beginning of the own chain that ends below the records that are held is no other branch.
func TestAnOldBeginningIsNoBranch(t *testing.T) {
	t.Parallel()
	for _, byzantine := range []bool{false, true} {
		l := forgetful(t, byzantine)
		m := l.peers[0].m
		old := m.chain.UpTo(m.chain.Height())
		l.until(t, l.peers[0].view().AppliedSlot+130, l.peers...)
		claim := wire.Alive{Height: old.Height(), Tip: old.TipHash(), Work: old.Tip().Work, Branch: old.Branch()}
		if byzantine && m.competing.worthGathering(claim) {
			t.Error("it is gathered")
		}
		shown := &branch{claim: claim, from: labID("B")}
		m.competing.gathering = shown
		m.onOpened(ReportOpened{of: shown, chain: old})
		if m.chain.Height() <= old.Height() || m.competing.gathering != nil || len(m.competing.refused) > 0 {
			t.Errorf("byzantine %v: it moves, looks on, or takes it for another branch", byzantine)
		}
	}
}

// While a peer gathers the past of another one, its own chain grows, until both hold the record
// that they share. It takes what is new, and keeps the past that its disk has, with all links.
func TestAPastThatMeetsTheOwnChain(t *testing.T) {
	t.Parallel()
	l := forgetful(t, false)
	a, d := l.peers[0], l.peers[3]
	l.add("E")
	l.connect()
	l.until(t, a.view().AppliedSlot+20, l.peers...)
	d.crash()
	l.until(t, a.view().AppliedSlot+60, l.peers[:3]...)
	d.start()
	own, c := d.m.chain, a.m.chain
	shown, err := chain.Resume(c.Rules(), slot.Root{}, c.Past(), c.Commits())
	if err != nil || shown.Start() <= own.Start() || !own.Meets(shown) ||
		len(shown.Past().Links) <= len(own.Past().Links) {
		t.Fatalf("summaries at %d and %d, %d and %d links: %v", own.Start(), shown.Start(), len(own.Past().Links),
			len(shown.Past().Links), err)
	}
	d.m.switchTo(&branch{chain: shown, from: a.id}, own.CommonHeight(shown))
	d.flush()
	l.connect()
	l.until(t, a.view().AppliedSlot+130, l.peers...)
	d.crash()
	d.start()
	if got, want := d.m.chain.Past(), a.m.chain.Past(); len(got.Links) != len(want.Links) {
		t.Errorf("%d links, others have %d", len(got.Links), len(want.Links))
	}
}
