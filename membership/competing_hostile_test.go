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

// forger grows a branch from a record of a chain, signing alone with whatever weight it likes.
type forger struct {
	*labPeer
	chain *chain.Chain
	by    []*labPeer // sign with it
}

// newForger is Z of agedLab.
func newForger(l *lab, from *chain.Chain, height uint64) *forger {
	e := from.Members()[slot.Find(from.Members(), labID("Z"))]
	return newForgerAs(l, from, height, e.Incarnation)
}

func newForgerAs(l *lab, from *chain.Chain, height uint64, inc slot.Incarnation) *forger {
	p := &labPeer{lab: l, name: "Z", id: labID("Z"), inc: inc}
	f := &forger{labPeer: p, chain: from.UpTo(height)}
	f.fork()
	return f
}

func (f *forger) fork() {
	members := []slot.Member{f.chain.Listing(f.id, f.inc)}
	f.chain.Push(f.certified(
		slot.Record{Kind: slot.Fork, Slot: f.chain.Tip().Slot, Members: members, Work: f.chain.Tip().Work}))
}

// add adds a record that the forger's own rules allow.
func (f *forger) add(r slot.Record) {
	if err := f.chain.Extend(f.certified(r), labVerify); err != nil {
		panic(err)
	}
}

// certified is a record above the forger's tip, with its signature and those of its friends.
func (f *forger) certified(r slot.Record) wire.Commit {
	c := f.chain
	r.Run, r.Height, r.Prev, r.StateRoot = c.Rules().Run, c.Height()+1, c.TipHash(), slot.Hash([]byte("forged"))
	v := slot.Vote{Ref: c.Next(), Hash: r.Hash()}
	typ := slot.TypeVote
	if r.Kind == slot.Fork {
		typ = slot.TypeFork
	}
	sigs := map[slot.PeerID][]byte{}
	for _, p := range append([]*labPeer{f.labPeer}, f.by...) {
		sigs[p.id] = labSign(p.id, slot.SignedBytes(typ, r.Run, p.id, p.inc, v.Append(nil)))
	}
	return wire.Commit{Record: r, Certificate: certificate(v, sigs)}
}

// steps adds slots of the greatest weight that the rules take.
func (f *forger) steps(n int) {
	for range n {
		f.step(f.chain.Rules().MaxWeight)
	}
}

// step adds a slot of one weight.
func (f *forger) step(weight uint64) {
	c := f.chain
	o := []slot.Offer{{
		Peer: f.id, Slot: c.OpenSlot(), Seq: c.SpentSeq(f.id) + 1, Base: c.OpenSlot() - 1, Weight: weight,
	}}
	f.add(slot.Record{
		Kind: slot.Step, Slot: c.OpenSlot(), Members: c.Electorate(), Work: c.WorkAfter(slot.Step, o),
		Contributions: o,
		Segments:      []slot.Segment{{Range: slot.Range{End: labElements}, Contributors: slot.Bitmap{1}}},
	})
}

func (f *forger) alive() wire.Alive {
	c := f.chain
	return wire.Alive{
		Branch: c.Branch(), Height: c.Height(), Tip: c.TipHash(), Work: c.Tip().Work, Synced: true,
		Applied: c.Height(),
	}
}

// serve lets the forger announce its chain to everybody and answer their questions for a while.
// spoil changes what it sends.
func (f *forger) serve(d time.Duration, spoil func(*wire.Commit)) (asked int) {
	l := f.lab
	for end := l.now + d; l.now < end; l.rests(100 * time.Millisecond) {
		for _, p := range l.peers {
			if !p.up() {
				continue
			}
			_ = p.step(labSigned(f.labPeer, f.alive()))
			for r := p.m.competing.gathering; r != nil && r.from == f.id &&
				r.next() <= f.chain.Height(); r = p.m.competing.gathering {
				c, err := f.chain.Read(r.next())
				if err != nil {
					panic(err)
				}
				if spoil != nil {
					spoil(&c)
				}
				asked++
				if err := p.step(labSigned(f.labPeer, c)); err != nil {
					break
				}
			}
		}
	}
	return asked
}

// agedLab is a run of three and Z, which has just died: a forger takes its name.
func agedLab(t *testing.T, slots uint64) *lab {
	rules := labRules()
	rules.StartPeers = 4
	l := connectedLab(t, rules, labTiming, "ABCZ")
	l.within(t, 2*time.Minute, "the slots", func() bool {
		return l.peers[0].m.View().AppliedSlot >= slots && len(l.peers[0].m.chain.Electorate()) == 4
	})
	l.peers[3].crash()
	l.peers = l.peers[:3]
	return l
}

func (l *lab) count(by string, kind EventKind) (n int) {
	for _, line := range l.log {
		if f := strings.Fields(line); f[0] == by && f[1] == string(kind) {
			n++
		}
	}
	return n
}

// HOLES H26: a heavy chain that a member forks off an old record moves nobody; it is named, once,
// and the run goes on.
func TestH26AHeavyForgedChain(t *testing.T) {
	l := agedLab(t, 2*youngSlots)
	old := l.peers[0].m.chain
	f := newForger(l, old, old.Height()-youngSlots-4)
	f.steps(200)
	if f.alive().Work <= old.Tip().Work {
		t.Fatal("the forged chain is not heavy")
	}
	at := old.OpenSlot()
	if f.serve(5*time.Second, nil) == 0 {
		t.Fatal("nobody looked at it")
	}
	for _, p := range l.peers {
		if p.m.chain.Tip().Slot < at+5 || p.m.switches > 0 || l.count(p.name, EventRefused) != 1 {
			t.Errorf("%s: slot %d after %d, moved %d times, named it %d times", p.name, p.m.chain.Tip().Slot, at,
				p.m.switches, l.count(p.name, EventRefused))
		}
	}
}

// A branch whose certificates are forged, replayed from another record, or whose work is not what
// it claims: refused, its holder named, nothing lost.
func TestABranchThatDoesNotVerify(t *testing.T) {
	for name, spoil := range map[string]func(f *forger) func(*wire.Commit){
		"a forged signature": func(*forger) func(*wire.Commit) {
			return func(c *wire.Commit) {
				c.Certificate.Signatures = []slot.Signature{{Peer: c.Certificate.Signatures[0].Peer, Sig: []byte("x")}}
			}
		},
		"a replayed certificate": func(f *forger) func(*wire.Commit) {
			return func(c *wire.Commit) { c.Certificate = f.chain.Commits()[len(f.chain.Commits())-1].Certificate }
		},
		"no signatures": func(*forger) func(*wire.Commit) {
			return func(c *wire.Commit) { c.Certificate.Signatures = nil }
		},
		"more work than it has": func(f *forger) func(*wire.Commit) {
			return func(c *wire.Commit) { c.Record.Work++ }
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := agedLab(t, 4)
			f := newForger(l, l.peers[0].m.chain, l.peers[0].m.chain.Height()-2)
			f.steps(60)
			at := l.peers[0].m.chain.OpenSlot()
			f.serve(4*time.Second, spoil(f))
			for _, p := range l.peers {
				if p.m.chain.Tip().Slot < at+5 || p.m.switches > 0 || l.count(p.name, EventRefused) == 0 ||
					len(p.m.doubts.peers) == 0 {
					t.Errorf("%s: slot %d after %d, moved %d times, named it %d times", p.name, p.m.chain.Tip().Slot,
						at, p.m.switches, l.count(p.name, EventRefused))
				}
			}
		})
	}
}

// A joiner without a pin takes the chain of the peer that it meets first; with one it takes none
// that lacks it, however heavy, and comes over to the one that has it, however light.
func TestAPinnedJoiner(t *testing.T) {
	l := agedLab(t, 6)
	honest := l.peers[0].m.chain
	f := newForger(l, honest, honest.Height()-3)
	f.steps(120)
	joiner := &labPeer{lab: l, name: "J", id: labID("J"), trains: true}
	joiner.format()
	l.peers = append(l.peers, joiner)
	l.pins = map[string]slot.Root{"J": honest.TipHash()}
	joiner.start()
	l.connect()
	only := []*labPeer{joiner}
	all := l.peers
	l.peers = only
	f.serve(3*time.Second, nil)
	l.peers = all
	if joiner.m.chain.Height() > 0 {
		t.Fatalf("it is on a chain without the pin, at height %d", joiner.m.chain.Height())
	}
	l.awaits(t, "it joins the chain with the pin", func() bool { return joiner.m.View().IsMember })
	if !joiner.m.chain.Has(honest.Height(), honest.TipHash()) || l.eventOf(EventForked, "J") {
		t.Error("its chain lacks the pin, or the founding is told as a fork")
	}
}

// A joiner with a pin far above what it may hold in memory verifies the chain up to the pin, holds
// the newest records of it alone, and then takes it in from the first record on.
func TestAPinnedJoinerOfALongChain(t *testing.T) {
	l := connectedLab(t, labRules(), labTiming, "AB")
	l.within(t, 5*time.Minute, "a long chain", func() bool { return l.peers[0].m.chain.Height() > 3*chain.HeldRecords })
	joiner := &labPeer{lab: l, name: "J", id: labID("J"), trains: true}
	joiner.format()
	l.peers = append(l.peers, joiner)
	l.pins = map[string]slot.Root{"J": l.peers[0].m.chain.TipHash()}
	joiner.start()
	joiner.m.competing.most = 1000
	l.connect()
	held, again := 0, false
	l.within(t, time.Minute, "it joins", func() bool {
		if r := joiner.m.competing.gathering; r != nil && r.chain != nil {
			held = max(held, len(r.chain.Commits()))
		}
		again = again || joiner.m.path != nil
		return joiner.m.View().IsMember
	})
	if held > chain.HeldRecords+1 || !again {
		t.Errorf("it held %d records in memory; fetched again: %v", held, again)
	}
}

// A peer that has the pin, or needs none, moves to a better branch by the records that it holds,
// however many they are: the way of a joiner with a pin is not for it.
func TestALongBranchIsMovedTo(t *testing.T) {
	l := agedLab(t, 4)
	a := l.peers[0]
	a.m.competing.most = 5000
	f := newForger(l, a.m.chain, a.m.chain.Height()-2)
	for range 2 * chain.HeldRecords {
		f.step(1)
	}
	f.serve(3*time.Second, nil)
	if a.m.path != nil || a.m.switches != 1 || a.m.chain.Branch() != f.chain.Branch() {
		t.Errorf("it looks for the records again: %v; moved %d times", a.m.path != nil, a.m.switches)
	}
}

// A branch that is shown record by record, each just in time, must not keep others from being
// looked at.
func TestABranchThatIsDripped(t *testing.T) {
	l := agedLab(t, 4)
	a := l.peers[0]
	f := newForger(l, a.m.chain, a.m.chain.Height()-2)
	f.steps(300)
	began, shown := l.now, time.Duration(0)
	for l.now < began+time.Minute {
		_ = a.step(labSigned(f.labPeer, f.alive()))
		if r := a.m.competing.gathering; r != nil && r.from == f.id {
			shown = l.now - began
			if r.next() <= f.chain.Height() && l.now-r.got > 6*l.timing.Retry {
				_ = a.step(labSigned(f.labPeer, f.chain.Commits()[r.next()-1]))
			}
		} else if len(a.m.doubts.peers) > 0 {
			break
		}
		l.rests(100 * time.Millisecond)
	}
	if shown > 20*l.timing.Retry {
		t.Errorf("looked at for %v", shown)
	}
}

// Two foundings wait for a second member, each at height 1. Of one only a newcomer is left, without
// its state. Where the other is the better one, the newcomer goes there, though that one is no
// higher.
func TestANewcomerOfAFoundingThatDied(t *testing.T) {
	for _, names := range []string{"ABC", "DEF", "GHI", "JKL", "MNO", "PQR"} {
		rules := labRules()
		rules.StartPeers = 2
		l := newLab(t, rules, labTiming)
		founder := l.add(names[:1])
		l.rests(5 * time.Second)
		left := l.add(names[1:2])
		left.unfed = true
		l.run(2*time.Second, func() bool { return left.m.chain.Height() > 0 })
		founder.crash()
		l.filters = []*labFilter{{from: names[1:2], left: -1}, {to: names[1:2], left: -1}}
		other := l.add(names[2:])
		l.rests(5 * time.Second)
		if other.m.chain.Height() == 0 || left.m.chain.Founding() == other.m.chain.Founding() {
			t.Fatal(l.show())
		}
		l.filters, left.unfed = nil, false
		l.connect()
		ours, theirs := left.m.chain.Hash(1), other.m.chain.Hash(1)
		founderIsBetter := slices.Compare(ours[:], theirs[:]) < 0
		if !l.run(time.Minute, func() bool { return left.m.View().AppliedSlot > 2 }) && !founderIsBetter {
			t.Errorf("%s: no slot is decided\n%s", names, l.show())
		}
	}
}

// TestALoneFoundingTakesNobody: where members may lie, a stranger founds the run once more, without
// anybody, and gives that more work. Members of a run that has had a second member stay where they
// are, however young their run is (BYZANTINE 9).
func TestALoneFoundingTakesNobody(t *testing.T) {
	rules := labRules()
	rules.Byzantine, rules.StartPeers = true, 1
	l := connectedLab(t, rules, labTiming, "ABCD")
	l.awaits(t, "all four are electors", func() bool { return len(l.peers[0].m.chain.Electorate()) == 4 })
	old := l.peers[0].m.chain
	f := &forger{labPeer: &labPeer{lab: l, name: "Z", id: labID("Z"), inc: 77}, chain: old.UpTo(0)}
	settled := func(kind slot.Kind, r slot.Record) {
		c := f.chain
		r.Kind, r.Height, r.Slot = kind, c.Height()+1, max(r.Slot, c.Tip().Slot)
		if kind == slot.Fork {
			f.add(c.SettleFork(r, chain.Turnover{Listed: []slot.Member{c.Listing(f.id, f.inc)}}))
			return
		}
		f.add(c.Settle(r, chain.Turnover{Listed: c.Members()}))
	}
	settled(slot.Fork, slot.Record{})
	for range 100 {
		c := f.chain
		o := []slot.Offer{{Peer: f.id, Slot: c.OpenSlot(), Seq: c.OpenSlot(), Base: c.OpenSlot() - 1, Weight: 100}}
		settled(slot.Step, slot.Record{
			Slot: c.OpenSlot(), Work: c.WorkAfter(slot.Step, o), Contributions: o,
			Segments: []slot.Segment{{Range: slot.Range{End: labElements}, Contributors: slot.Bitmap{1}}},
		})
	}
	if f.alive().Work <= old.Tip().Work || old.Tip().Slot >= youngSlots {
		t.Fatalf("work %d, slot %d", old.Tip().Work, old.Tip().Slot)
	}
	at := old.OpenSlot()
	f.serve(5*time.Second, nil)
	for _, p := range l.peers {
		if p.m.chain.Tip().Slot < at+3 || p.m.switches > 0 {
			t.Errorf("%s: slot %d after %d, moved %d times", p.name, p.m.chain.Tip().Slot, at, p.m.switches)
		}
	}
}
