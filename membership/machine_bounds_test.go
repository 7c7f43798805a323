package membership

import (
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/chain"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// TestStrangersAreBounded: peers that are no members cannot fill the memory, nor push a member out.
func TestStrangersAreBounded(t *testing.T) {
	l := labOf(t, "ABC")
	m := l.peer("A").m
	for i := range 1000 {
		msg := wire.Message{From: labID(fmt.Sprint("stranger", i)), Incarnation: slot.Incarnation(i), Body: wire.Join{}}
		if i%2 == 0 {
			msg.Body = wire.Alive{}
		}
		if err := m.Step(l.now+time.Duration(i), msg); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(m.presence.known); n > 3+maxStrangers {
		t.Errorf("%d peers are remembered", n)
	}
	for _, e := range m.chain.Electorate() {
		if m.presence.known[ofMember(e)] == nil {
			t.Errorf("%s is forgotten", e.Peer)
		}
	}
	if _, kept := m.presence.known[memberKey{labID("stranger999"), 999}]; !kept {
		t.Error("the newest stranger is forgotten")
	}
}

// TestEarlyMessagesAreBounded: what waits for the next record cannot fill the memory either.
func TestEarlyMessagesAreBounded(t *testing.T) {
	l := labOf(t, "ABC")
	m := l.peer("A").m
	msg := wire.Message{
		From: labID("B"), Incarnation: l.peer("B").inc,
		Body: wire.Retry{Ref: slot.Ref{Height: m.chain.Height() + 2, Ballot: 1}},
	}
	for range 10 * maxEarly {
		if err := m.Step(l.now, msg); err != nil {
			t.Fatal(err)
		}
	}
	if len(m.catchup.early) != maxEarlyFrom {
		t.Errorf("%d early messages", len(m.catchup.early))
	}
	far := msg
	far.Body = wire.Retry{Ref: slot.Ref{Height: m.chain.Height() + 1000, Ballot: 1}}
	if _ = m.Step(l.now, far); m.catchup.early[maxEarlyFrom-1].Body == far.Body {
		t.Error("a message for a height far off is kept")
	}
	msg.From = labID("stranger")
	if err := m.Step(l.now, msg); !errors.Is(err, ErrSender) {
		t.Errorf("a stranger's message is kept: %v", err)
	}
}

// Large messages that wait for the next record are bounded in bytes, of one member and of all, and
// a member that sends many pushes out none of another one.
func TestEarlyMessagesAreBoundedInBytes(t *testing.T) {
	t.Parallel()
	l := labOf(t, "ABCDEFGHIJ")
	a, quiet := l.peers[0].m, l.peers[1]
	next := a.chain.Next()
	next.Height++
	large := func(offers int) wire.Body {
		return wire.Plan{Plan: slot.Plan{Ref: next, Offers: make([]slot.Offer, offers)}}
	}
	offer := wire.Size(large(1)) - wire.Size(large(0))
	keep := func(p *labPeer, bytes int) {
		t.Helper()
		msg := wire.Message{From: p.id, Incarnation: p.inc, Body: large(bytes / offer)}
		if err := a.Step(l.now, msg); err != nil {
			t.Fatal(err)
		}
	}
	size := func(m earlyMessage) int { return wire.Size(m.Body) }
	keep(quiet, 4<<20)
	for _, p := range l.peers[2:] {
		for range 2 * maxEarlyFrom {
			keep(p, slot.MaxMessage)
		}
		if n := a.catchup.early.sum(size, p.id); n > 8<<20 {
			t.Errorf("%d bytes of one member", n)
		}
	}
	if n := a.catchup.early.sum(size, ""); n > 32<<20 || n < 30<<20 {
		t.Errorf("%d bytes in all", n)
	}
	if a.catchup.early.sum(size, quiet.id) == 0 {
		t.Error("what one member sent is pushed out by others that sent more")
	}
}

// TestForeignAndMalformed: Step refuses what makes no sense, with a reason, and nothing changes.
func TestForeignAndMalformed(t *testing.T) {
	l := labOf(t, "ABC")
	p := l.peer("A")
	next := p.m.chain.Next()
	b, c := l.peer("B"), l.peer("C")
	leader, other := b, c
	if p.m.open.leader(0).Peer != b.id {
		leader, other = c, b
	}
	if p.m.open.leader(0).Peer == p.id {
		leader = p
	}
	at := func(ballot uint32) slot.Ref { return slot.Ref{Height: next.Height, Prev: next.Prev, Ballot: ballot} }
	for name, c := range map[string]struct {
		from *labPeer
		body wire.Body
		want error
	}{
		"a plan of no leader": {other, wire.Plan{Plan: slot.Plan{Ref: at(0)}}, ErrSender},
		"an empty plan":       {leader, wire.Plan{Plan: slot.Plan{Ref: at(0), Slot: 1}}, chain.ErrInvalid},
		"an empty draft": {
			leader, draftOf(0, slot.Record{Height: next.Height, Prev: next.Prev}, nil),
			chain.ErrInvalid,
		},
		"a draft without outcome": {
			leader, draftOf(0, func() slot.Record {
				r := stepRecord(p.m, "AB")
				r.Segments = nil
				return r
			}(), nil), chain.ErrInvalid,
		},
		"a draft with promises in ballot 0": {
			leader, func() wire.Draft {
				d := draftOf(0, stepRecord(p.m, "AB"), nil)
				d.Grounds.Promises = []wire.Promised{{Peer: b.id, Incarnation: b.inc}}
				return d
			}(), chain.ErrInvalid,
		},
		"a far ballot":             {other, wire.Retry{Ref: at(math.MaxUint32)}, ErrStale},
		"a vote nobody asked for":  {other, wire.Vote{Vote: slot.Vote{Ref: at(9)}}, ErrStale},
		"a HAVE nobody asked for":  {other, wire.Have{Vote: slot.Vote{Ref: at(9)}}, ErrStale},
		"a fork of another":        {other, wire.ForkVote{}, ErrStale},
		"a commit of another run":  {other, wire.Commit{Record: slot.Record{Height: 1}}, chain.ErrInvalid},
		"an unproven commit":       {other, wire.Commit{Record: stepRecord(p.m, "AB")}, chain.ErrInvalid},
		"an ALIVE ahead of itself": {other, wire.Alive{Applied: 3, Branch: slot.Root{1}}, chain.ErrInvalid},
		"another's offer":          {other, wire.Offer{Offer: slot.Offer{Peer: p.id, Slot: 1, Seq: 1}}, ErrSender},
		"a member that joins":      {other, wire.Join{}, ErrStale},
		"another chain":            {other, wire.Retry{Ref: slot.Ref{Height: next.Height, Ballot: 1}}, ErrStale},
	} {
		before := fingerprint(p.m.open)
		err := p.m.Step(l.now, wire.Message{From: c.from.id, Incarnation: c.from.inc, Body: c.body})
		if err == nil || c.want != nil && !errors.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
		}
		if fingerprint(p.m.open) != before {
			t.Errorf("%s: changed what is open", name)
		}
	}
}

// TestFoundingResumed: a founder that stops after it signed gives the same signature again; without
// the state it signed for, its next attempt is another one.
func TestFoundingResumed(t *testing.T) {
	l := newLab(t, labRules(), labTiming)
	p := l.add("A")
	var fork wire.EntryFork
	p.keep = func(e wire.Entry) bool {
		if f, ok := e.(wire.EntryFork); ok {
			fork = f
		}
		_, commit := e.(wire.EntryCommit)
		return !commit
	}
	l.run(time.Minute, func() bool { return fork.Height > 0 })
	saved, _ := p.store.Load()
	for _, c := range []struct {
		root    slot.Root
		attempt uint32
		signed  bool
	}{{fork.Record.StateRoot, 0, false}, {slot.Root{1}, 1, true}} {
		m := machineOn(p.m.cfg, saved, p.store)
		m.Tick(0)
		if w := m.Ready().Work; len(w) != 1 || w[0] != (WorkFound{}) {
			t.Fatalf("asked for %v", w)
		}
		m.Report(0, ReportApplied{StateRoot: c.root})
		r := m.Ready()
		vote, ok := r.Send[0].Body.(wire.ForkVote)
		if !ok || vote.Ballot != c.attempt || (len(r.Persist) > 0) != c.signed {
			t.Errorf("root %s: %+v, %d on disk", c.root.Short(), r.Send[0].Body, len(r.Persist))
		}
	}
}
