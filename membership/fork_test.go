package membership

import (
	"errors"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// forkWorld is A alone of ABC, long enough without the others to fork, and B, which does not run
// but whose words the test says.
func forkWorld(t *testing.T) (l *lab, a, b *labPeer, fork func(attempt uint32, members ...*labPeer) wire.ForkDraft) {
	l = labOf(t, "ABC")
	a, b = l.peers[0], l.peers[1]
	l.filters = []*labFilter{{from: "A", left: -1}}
	l.peers[2].crash()
	b.crash()
	l.rests(3 * time.Second)
	a.m.cfg.Timing.ForkAfter = time.Second
	a.m.fork.leads = false
	return l, a, b, func(attempt uint32, members ...*labPeer) wire.ForkDraft {
		c := a.m.chain
		var list []slot.Member
		for _, p := range members {
			list = append(list, c.Listing(p.id, p.inc))
		}
		ref := c.Next()
		return wire.ForkDraft{Ballot: attempt, Record: slot.Record{
			Run: l.rules.Run, Height: ref.Height, Kind: slot.Fork, Prev: ref.Prev, Slot: c.Tip().Slot,
			StateRoot: a.m.model.state.root,
			Members:   list, Work: c.Tip().Work,
		}}
	}
}

// One signature for an attempt, none for a lower one, and none for the next before its time: over a
// restart, too.
func TestOneForkSignatureAnAttempt(t *testing.T) {
	l, a, b, fork := forkWorld(t)
	first, other := fork(4, a, b), fork(4, a, b, l.peers[2])
	if err := a.step(labSigned(b, first)); err != nil || a.m.fork.signed == nil || a.m.fork.signed.Ballot != 4 {
		t.Fatalf("%v, signed %+v", err, a.m.fork.signed)
	}
	signed := func(p wire.ForkDraft) bool {
		return a.m.fork.signed.Record.Hash() == p.Record.Hash() && a.m.fork.signed.Ballot == p.Ballot
	}
	// the last comes too soon
	for _, p := range []wire.ForkDraft{other, fork(3, a, b, l.peers[2]), fork(5, a, b)} {
		if err := a.step(labSigned(b, p)); !errors.Is(err, ErrStale) || !signed(first) {
			t.Errorf("attempt %d: %v", p.Ballot, err)
		}
	}
	a.crash()
	a.start()
	l.now += 3 * time.Second
	a.m.now, a.m.fork.lost = l.now, l.now-2*time.Second
	a.m.cfg.Timing.ForkAfter = time.Second
	if s := a.m.fork.signed; s == nil || s.Ballot != 4 {
		t.Fatalf("after a restart the mark is %+v", s)
	}
	for _, p := range []wire.ForkDraft{other, fork(3, a, b)} {
		if err := a.step(labSigned(b, p)); !errors.Is(err, ErrStale) || !signed(first) {
			t.Errorf("after a restart, attempt %d: %v", p.Ballot, err)
		}
	}
	if err := a.step(labSigned(b, fork(6, a, b))); err != nil || a.m.fork.signed.Ballot != 6 {
		t.Errorf("the next attempt: %v", err)
	}
}

// No peer signs these forks: one while a quorum is there, one of a peer that pauses, one of another
// state, one by a peer that is not listed, or one mixed with others.
func TestForksThatAreNotSigned(t *testing.T) {
	for name, prepare := range map[string]func(l *lab, a, b *labPeer, p *wire.ForkDraft){
		"a quorum is heard": func(_ *lab, a, _ *labPeer, _ *wire.ForkDraft) { a.m.fork.lost = a.m.now },
		"it pauses":         func(_ *lab, a, _ *labPeer, _ *wire.ForkDraft) { a.m.cfg.PauseOnLoss = true },
		"another state":     func(_ *lab, _, _ *labPeer, p *wire.ForkDraft) { p.Record.StateRoot = slot.Root{1} },
		"not listed":        func(_ *lab, _, b *labPeer, p *wire.ForkDraft) { p.Record.Members = p.Record.Members[1:] },
		"more work":         func(_ *lab, _, _ *labPeer, p *wire.ForkDraft) { p.Record.Work += 9 },
		"with a stranger": func(l *lab, a, _ *labPeer, p *wire.ForkDraft) {
			p.Record.Members = insertMember(p.Record.Members, a.m.chain.Listing(labID("Z"), 1))
		},
	} {
		l, a, b, fork := forkWorld(t)
		p := fork(0, a, b)
		prepare(l, a, b, &p)
		if _ = a.step(labSigned(b, p)); a.m.fork.signed != nil {
			t.Errorf("%s: signed", name)
		}
	}
	_, a, _, _ := forkWorld(t)
	a.m.cfg.PauseOnLoss = true
	a.report(ReportRecover{})
	if a.m.chain.Tip().Kind != slot.Fork {
		t.Error("no fork on the operator's order")
	}
}

// A fork decides nothing about its siblings: the vote given at the place stays, in memory and on
// disk. So does what was certified on records that are given up.
func TestWordsOutliveAFork(t *testing.T) {
	_, a, _, fork := forkWorld(t)
	next := a.m.chain.Next()
	at := wire.Position{Height: next.Height, Prev: next.Prev}
	a.m.acceptor.lock(wire.QC{}, wire.Drafted{Record: slot.Record{
		Run: a.lab.rules.Run, Height: next.Height, Prev: next.Prev,
		Kind: slot.Members,
	}})
	p := fork(0, a)
	a.m.fork.sign(p.At(), p.Record, a.id)
	a.m.fork.repeat()
	a.flush()
	if a.m.chain.Branch() != p.Record.Hash() {
		t.Fatal("the fork was not certified")
	}
	if w := a.m.pledges.kept[at]; w.Vote == nil || w.Fork == nil {
		t.Errorf("in memory: %+v", w)
	}
	if w := load(t, a.store).Elsewhere[at]; w.Vote == nil || w.Fork == nil {
		t.Errorf("on disk: %+v", w)
	}
}

// No fork lists a peer that has provably contradicted itself.
func TestAForkWithoutTheEvicted(t *testing.T) {
	l, a, b, _ := forkWorld(t)
	at := a.m.chain.Next()
	acquainted := a.m.presence.known[memberKey{b.id, b.inc}]
	acquainted.heard = l.now
	acquainted.alive = &wire.Alive{
		Branch: a.m.chain.Branch(), Height: at.Height - 1, Tip: at.Prev, Synced: true,
		Applied: at.Height - 1,
	}
	if slot.Find(a.m.fork.forkers(), b.id) < 0 {
		t.Fatal("B is not in the fork at all")
	}
	vote := func(h byte) wire.Message {
		return labSigned(b, wire.Vote{Vote: slot.Vote{Ref: at, Hash: slot.Root{h}}})
	}
	_ = a.step(vote(1))
	_ = a.step(vote(2))
	if slot.Find(a.m.fork.forkers(), b.id) >= 0 {
		t.Error("the evicted is in the fork")
	}
}
