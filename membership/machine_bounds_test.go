package membership

import (
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// TestStrangersAreBounded: peers that are no members cannot fill the memory, nor push a member out.
func TestStrangersAreBounded(t *testing.T) {
	l := labOf(t, "ABC")
	m := l.peer("A").m
	for i := range 1000 {
		msg := Message{From: labID(fmt.Sprint("stranger", i)), Incarnation: slot.Incarnation(i), Body: Join{}}
		if i%2 == 0 {
			msg.Body = Alive{}
		}
		if err := m.Step(l.now+time.Duration(i), msg); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(m.presence.known); n > 3+maxStrangers {
		t.Errorf("%d peers are remembered", n)
	}
	for _, e := range m.chain.electorate() {
		if m.presence.known[ofMember(e)] == nil {
			t.Errorf("%s is forgotten", e.Peer)
		}
	}
	if _, kept := m.presence.known[who{labID("stranger999"), 999}]; !kept {
		t.Error("the newest stranger is forgotten")
	}
}

// TestEarlyMessagesAreBounded: what waits for the next record cannot fill the memory either.
func TestEarlyMessagesAreBounded(t *testing.T) {
	l := labOf(t, "ABC")
	m := l.peer("A").m
	msg := Message{From: labID("B"), Incarnation: l.peer("B").inc, Body: Prepare{slot.Ref{Height: m.chain.height() + 2, Ballot: 1}}}
	for range 10 * maxEarly {
		if err := m.Step(l.now, msg); err != nil {
			t.Fatal(err)
		}
	}
	if len(m.early) != maxEarlyFrom {
		t.Errorf("%d early messages", len(m.early))
	}
	msg.From = labID("stranger")
	if err := m.Step(l.now, msg); !errors.Is(err, ErrSender) {
		t.Errorf("a stranger's message is kept: %v", err)
	}
}

// TestNeedIsBounded: an answer is a few records, whatever is asked for.
func TestNeedIsBounded(t *testing.T) {
	l := labOf(t, "A")
	m := l.peer("A").m
	for range 40 {
		m.chain.push(Commit{Record: stepRecord(m, "A")})
	}
	for from, want := range map[uint64]int{0: 0, 1: commitsAtOnce, 30: 12, 41: 1, 42: 0, math.MaxUint64: 0} {
		_ = m.Step(l.now, Message{From: labID("Z"), Body: Need{From: from}})
		if got := len(m.Ready().Send); got != want {
			t.Errorf("from %d: %d records, not %d", from, got, want)
		}
	}
}

// TestWordsStayAtTheirPlace: a promise made on a chain that was given up holds when the machine is there again (H7).
func TestWordsStayAtTheirPlace(t *testing.T) {
	l := labOf(t, "AB")
	p := l.peer("B")
	saved, _ := p.store.Load()
	next := p.m.chain.next()
	next.Ballot = 5
	elsewhere := slot.Ref{Height: 9, Prev: slot.Hash([]byte("elsewhere")), Ballot: 7}
	saved.Promise, saved.Elsewhere = &EntryPromise{next}, []Entry{EntryPromise{elsewhere}, EntryVote{elsewhere, slot.Record{Height: 9}}}
	m := NewMachine(p.m.cfg, saved)
	if m.open.word.floor() != 5 || m.open.word.vote != nil {
		t.Errorf("the open place has %+v", m.open.word)
	}
	if w := m.words[place{9, elsewhere.Prev}]; w.floor() != 7 || w.vote == nil {
		t.Errorf("the other place has %+v", w)
	}
	m.shelve()
	m.openDecree()
	if m.open.word.floor() != 5 {
		t.Error("the word did not come back with its place")
	}
}

// TestForeignAndMalformed: Step refuses what makes no sense, with a reason, and nothing changes.
func TestForeignAndMalformed(t *testing.T) {
	l := labOf(t, "ABC")
	p := l.peer("A")
	next := p.m.chain.next()
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
		body Body
		want error
	}{
		"a plan of no leader":        {other, Plan{slot.Plan{Ref: at(0)}}, ErrSender},
		"an empty plan":              {leader, Plan{slot.Plan{Ref: at(0), Slot: 1}}, ErrInvalid},
		"a draft of no kind":         {leader, Draft{slot.Draft{Ref: at(0), Kind: 9}}, ErrInvalid},
		"a draft without outcome":    {leader, Draft{slot.Draft{Ref: at(0), Kind: slot.Step, Slot: 1}}, ErrInvalid},
		"an empty proposal":          {leader, Propose{Record: slot.Record{Height: next.Height, Prev: next.Prev}}, ErrInvalid},
		"a far ballot":               {other, Prepare{at(math.MaxUint32)}, nil},
		"a vote nobody asked for":    {other, Vote{slot.Vote{Ref: at(9)}}, ErrStale},
		"a promise nobody asked for": {other, Promise{Ref: at(9)}, ErrStale},
		"a HAVE nobody asked for":    {other, Have{Ref: at(9)}, ErrStale},
		"a fork of another":          {other, ForkVote{}, ErrStale},
		"a commit of another run":    {other, Commit{}, ErrInvalid},
		"an unproven commit":         {other, Commit{Record: stepRecord(p.m, "AB")}, ErrInvalid},
		"an ALIVE ahead of itself":   {other, Alive{Applied: 3, Branch: slot.Root{1}}, ErrInvalid},
		"another's offer":            {other, Offer{slot.Offer{Peer: p.id, Slot: 1, Seq: 1}}, ErrSender},
		"a member that joins":        {other, Join{}, ErrStale},
		"another chain":              {other, Prepare{slot.Ref{Height: next.Height, Ballot: 1}}, ErrStale},
	} {
		before := fingerprint(p.m.open)
		err := p.m.Step(l.now, Message{From: c.from.id, Incarnation: c.from.inc, Body: c.body})
		if err == nil || c.want != nil && !errors.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
		}
		if fingerprint(p.m.open) != before {
			t.Errorf("%s: changed what is open", name)
		}
	}
}

// TestFoundingResumed: a founder that stops after it signed gives the same signature again; without the state it signed for, its
// next attempt is another one.
func TestFoundingResumed(t *testing.T) {
	l := newLab(t, labRules(), labTiming)
	p := l.add("A")
	var fork EntryFork
	p.keep = func(e Entry) bool {
		if f, ok := e.(EntryFork); ok {
			fork = f
		}
		_, commit := e.(EntryCommit)
		return !commit
	}
	l.run(time.Minute, func() bool { return fork.Height > 0 })
	saved, _ := p.store.Load()
	for _, c := range []struct {
		root    slot.Root
		attempt uint32
		signed  bool
	}{{fork.Record.StateRoot, 0, false}, {slot.Root{1}, 1, true}} {
		m := NewMachine(p.m.cfg, saved)
		m.Tick(0)
		if w := m.Ready().Work; len(w) != 1 || w[0] != (WorkFound{}) {
			t.Fatalf("asked for %v", w)
		}
		m.Report(0, ReportApplied{StateRoot: c.root})
		r := m.Ready()
		vote, ok := r.Send[0].Body.(ForkVote)
		if !ok || vote.Ballot != c.attempt || (len(r.Persist) > 0) != c.signed {
			t.Errorf("root %s: %+v, %d on disk", c.root.Short(), r.Send[0].Body, len(r.Persist))
		}
	}
}
