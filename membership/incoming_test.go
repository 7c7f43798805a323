package membership

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/chain"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// dripper is a stranger that claims to be far ahead, and shows a past without an end.
type dripper struct {
	*labPeer
	size int           // bytes of a part
	pace time.Duration // between two parts
	next time.Duration
}

func (s *dripper) alive() wire.Alive {
	return wire.Alive{
		Height: 1 << 20, Branch: s.lab.peers[0].m.chain.Branch(), Tip: slot.Hash([]byte(s.name)), Work: 1 << 60,
	}
}

// drip tells a peer of the claim, and sends it a part that it may take.
func (s *dripper) drip(to *labPeer) {
	_ = to.step(labSigned(s.labPeer, s.alive()))
	part := wire.PastPart{Floor: 1 << 19, Height: 1<<19 + 20, Parts: 1000, Data: make([]byte, s.size)}
	if g := to.m.competing.gathering; g != nil && g.from == s.id && g.past != nil {
		if s.lab.now < s.next {
			return
		}
		part.Part = uint32(len(g.past.got))
	}
	s.next = s.lab.now + s.pace
	_ = to.step(labSigned(s.labPeer, part))
}

// dripTo has strangers send to a peer, until done or for so long.
func (l *lab) dripTo(to *labPeer, n, size int, limit time.Duration, done func() bool) bool {
	var all []*dripper
	for i := range n {
		name := fmt.Sprintf("S%d", i)
		all = append(all, &dripper{
			labPeer: &labPeer{lab: l, name: name, id: labID(name), inc: 1}, size: size,
			pace: 6 * l.timing.Retry,
		})
	}
	for end := l.now + limit; l.now < end; {
		for _, s := range all {
			s.drip(to)
		}
		if l.run(50*time.Millisecond, done) {
			return true
		}
	}
	return false
}

// Strangers take turns to show a newcomer a past that never ends, with the most work of all. None
// holds the only place for what is gathered for longer than its turn: 128 s each, before.
func TestStrangersPastsKeepNobodyOut(t *testing.T) {
	t.Parallel()
	for _, size := range []int{1, wire.PastPartSize} {
		l := forgetful(t, false)
		e := l.add("E")
		if !l.dripTo(e, 4, size, 5*time.Minute, e.m.member) {
			t.Errorf("with parts of %d bytes the newcomer is kept out\n%s", size, l.show())
		}
		small := slices.ContainsFunc(l.log, func(s string) bool { return strings.Contains(s, "as long as parts are") })
		if small != (size == 1) {
			t.Errorf("parts of %d bytes are found to be too small: %v", size, small)
		}
	}
}

// A peer that is behind takes what a member of its tip shows, and does not wait for a stranger.
func TestAMembersPastComesBeforeAStrangers(t *testing.T) {
	t.Parallel()
	l := forgetful(t, false)
	d := l.peers[3]
	d.crash()
	l.until(t, l.peers[0].view().AppliedSlot+110, l.peers[:3]...)
	l.filters = []*labFilter{{to: "D", left: -1}}
	d.start()
	tip := d.m.chain.Height()
	if !l.dripTo(d, 1, wire.PastPartSize, time.Minute, func() bool { return d.m.competing.gathering != nil }) {
		t.Fatalf("the stranger's past is not taken\n%s", l.show())
	}
	l.filters = nil
	if !l.dripTo(d, 1, wire.PastPartSize, firstLease*labTiming.Retry-time.Second,
		func() bool { return d.m.chain.Height() > tip+80 }) {
		t.Errorf("it is still at height %d\n%s", d.m.chain.Height(), l.show())
	}
}

// Where all are slow, and strangers, each shows its past for longer with each turn: otherwise none
// would come to its end.
func TestTurnsBecomeLonger(t *testing.T) {
	l := forgetful(t, false)
	e := l.add("E")
	first := e.m.competing.lease(&e.m.catchup.need)
	longer := func() bool { return e.m.competing.lease(&e.m.catchup.need) >= 4*first }
	l.filters = []*labFilter{{to: "E", left: -1}}
	if !l.dripTo(e, 3, wire.PastPartSize, 3*time.Minute, longer) {
		t.Error("three strangers have turns of the same length")
	}
}

// A past that comes unasked is not taken, from whomever.
func TestAPastThatNobodyAskedForIsNotTaken(t *testing.T) {
	l := forgetful(t, false)
	e := l.add("E")
	s := &dripper{labPeer: &labPeer{lab: l, name: "S", id: labID("S"), inc: 1}, size: wire.PastPartSize}
	// another peer is asked, since it was heard first
	other := &labPeer{lab: l, name: "T", id: labID("T"), inc: 1}
	_ = e.step(labSigned(other, s.alive()))
	s.drip(e)
	if g := e.m.competing.gathering; g != nil {
		t.Errorf("that of %s is gathered", g.from)
	}
}

// While a stranger's past is gathered, a branch that a member of the tip announces is looked at.
func TestABranchOfAMemberComesBeforeAStrangersPast(t *testing.T) {
	l := forgetful(t, false)
	a, b := l.peers[0], l.peers[1]
	m := a.m
	other := wire.Alive{
		Branch: slot.Hash([]byte("other")), Tip: slot.Hash([]byte("tip")), Height: m.chain.Height() + 9,
		Work: m.chain.Tip().Work + 1,
	}
	for _, by := range []slot.PeerID{labID("S"), b.id} {
		m.competing.gathering = &branch{from: by, past: &incoming{height: 1 << 20}, got: m.now, began: m.now}
		_ = a.step(labSigned(l.peers[2], other))
		if stays := m.competing.gathering.past != nil; stays != (by == b.id) {
			t.Errorf("the past that %s shows is still gathered: %v", by, stays)
		}
	}
}

// shownByForger is a past that one peer alone has signed, in the run that it has founded.
func shownByForger(l *lab) (f *forger, parts []wire.PastPart) {
	f = newForgerAs(l, chain.New(l.rules, slot.Root{}), 0, 77)
	for range 300 {
		c := f.chain
		o := []slot.Offer{{
			Peer: f.id, Slot: c.OpenSlot(), Seq: c.SpentSeq(f.id) + 1, Base: c.OpenSlot() - 1, Weight: 1,
		}}
		f.add(slot.Record{
			Kind: slot.Step, Slot: c.OpenSlot(), Members: c.Electorate(), Work: c.WorkAfter(slot.Step, o),
			Contributions: o, Summary: c.SummaryAbove(),
			Segments: []slot.Segment{{Range: slot.Range{End: labElements}, Contributors: slot.Bitmap{1}}},
		})
	}
	f.chain.Prune(0)
	pa := past{facts: &facts{chain: f.chain}, effects: &effects{}}
	for part := uint32(0); ; part++ {
		if pa.show("somebody", part) != nil {
			return f, parts
		}
		sent := pa.drain().Send
		parts = append(parts, sent[0].Body.(wire.PastPart))
	}
}

// The loop of a driver verifies none of the signatures of a past: a stranger chooses how many there
// are. Those of a run with another founding are not verified at all. Before, all were in one Step:
// some 18 s, at 50 us each, for the most that fit into one. This peer said nothing meanwhile.
func TestAPastIsVerifiedBesideTheLoop(t *testing.T) {
	rules := labRules()
	rules.SummaryEvery, rules.MaxStaleness, rules.StartPeers = 16, 1, 1
	for _, founded := range []bool{false, true} {
		l := newLab(t, rules, labTiming)
		f, parts := shownByForger(l)
		p := l.add("A")
		if founded && !l.run(time.Minute, func() bool { return p.m.chain.Height() > 2 }) {
			t.Fatal(l.show())
		}
		checks, m := 0, p.m
		m.cfg.Verify = func(by slot.PeerID, data, sig []byte) bool {
			checks++
			return labVerify(by, data, sig)
		}
		claim := f.alive()
		if founded {
			claim.Branch = m.chain.Branch()
		}
		_ = m.Step(p.clock(), labSigned(f.labPeer, claim))
		for _, part := range parts {
			if err := m.Step(p.clock(), labSigned(f.labPeer, part)); err != nil {
				t.Fatal(err)
			}
		}
		work := m.Ready().Work
		i := slices.IndexFunc(work, func(w Work) bool { _, is := w.(WorkOpen); return is })
		if i < 0 || checks > 0 {
			t.Fatalf("founded %v: %d signatures are checked in the loop, work: %T", founded, checks, work)
		}
		m.Report(p.clock(), work[i].(WorkOpen).Open(func() bool { return false }))
		if took := m.chain.Founding() == f.chain.Founding(); took == founded || founded == (checks > 0) {
			t.Errorf("founded %v: the other founding is taken %v, after %d checks", founded, took, checks)
		}
		m.competing.doubts.peers = nil // their time is over
		if founded && !errors.Is(m.Step(p.clock(), labSigned(f.labPeer, parts[0])), ErrStale) {
			t.Error("what has another founding is gathered once more")
		}
	}
}

// The signatures of a large past take a minute or more. Whoever shows it has its whole time all the
// same, for the records that follow: it was given up right after a past that had taken its time.
func TestTheTimeToVerifyAPastDoesNotCount(t *testing.T) {
	rules := labRules()
	rules.SummaryEvery, rules.MaxStaleness, rules.StartPeers = 16, 1, 1
	l := newLab(t, rules, labTiming)
	f, parts := shownByForger(l)
	p := l.add("A")
	_ = p.m.Step(p.clock(), labSigned(f.labPeer, f.alive()))
	for _, part := range parts {
		if err := p.m.Step(p.clock(), labSigned(f.labPeer, part)); err != nil {
			t.Fatal(err)
		}
	}
	for _, w := range p.m.Ready().Work {
		open, is := w.(WorkOpen)
		if !is {
			continue
		}
		opened := open.Open(func() bool { return false })
		p.m.competing.gathering.claim.Height += 1 << 20 // there is more to show
		p.m.competing.now += 2 * maxGathering * labTiming.Retry
		if p.m.competing.opened(opened); opened.err != nil || open.of.began < p.m.now-labTiming.Retry {
			t.Errorf("%v: it began to be shown %v ago", opened.err, p.m.now-open.of.began)
		}
		began := open.of.began
		p.m.competing.now += 2 * maxGathering * labTiming.Retry
		p.m.competing.gathering = open.of
		if p.m.competing.opened(opened); open.of.began != began {
			t.Error("the time for a second past does not count either")
		}
		return
	}
	t.Error("no past is verified")
}

// Who shows a past that takes long to refuse is passed over for as long. It showed the next one
// right after, and nobody else got a turn.
func TestWhoWastesTimeIsDoubtedAsLong(t *testing.T) {
	l := newLab(t, labRules(), labTiming)
	m := l.add("A").m
	m.competing.doubts.add("honest", ReasonBadChain, "something else")
	r := &branch{from: "liar"}
	m.competing.gathering, m.competing.now = r, m.competing.now+4*doubtFor*labTiming.Retry
	m.competing.opened(ReportOpened{of: r, err: ErrStale})
	m.competing.now += 3 * doubtFor * labTiming.Retry
	if do := m.competing.doubts; !do.has("liar") || do.has("honest") {
		t.Error("the liar is not doubted, or another one is for its sake")
	}
	if m.competing.now += doubtFor*labTiming.Retry + 1; m.competing.doubts.has("liar") {
		t.Error("it is doubted for good")
	}
}

// TestAPastWithoutParts: the first part of a past that says to have none is refused, and its sender
// is not believed. It was kept, and nothing ended the wait for the last one.
func TestAPastWithoutParts(t *testing.T) {
	l := forgetful(t, false)
	e := l.add("E")
	s := &dripper{labPeer: &labPeer{lab: l, name: "S", id: labID("S"), inc: 1}}
	part := wire.PastPart{Floor: 1 << 19, Height: 1<<19 + 20, Data: make([]byte, wire.PastPartSize)}
	refused := func() bool {
		_ = e.step(labSigned(s.labPeer, s.alive()))
		_ = e.step(labSigned(s.labPeer, part))
		g := e.m.competing.gathering
		if g != nil && g.from == s.id && g.past != nil {
			t.Fatal("it is kept")
		}
		return e.m.doubts.has(s.id)
	}
	l.awaits(t, "somebody doubts its sender", refused)
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
