package membership

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/chain"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// TestTwoLeadersInARowAreGone: the leader and the next one of five die in one moment. The third
// leads as soon as both are seen to be gone: no term's time is waited for. Status names the two.
func TestTwoLeadersInARowAreGone(t *testing.T) {
	l := labOf(t, "ABCDE")
	d := l.peers[0].m.open
	at := func(term uint32) *labPeer { return l.peer(labName(d.leader(d.ballot + term*slot.Tries).Peer)) }
	at(0).crash()
	at(1).crash()
	third, height := at(2), d.ref.Height
	lost := []slot.PeerID{at(0).id, at(1).id}
	for _, p := range l.peers {
		if p.up() {
			train(true, p)
		}
	}
	l.connect()
	began := l.now
	if !l.run(labTiming.Patience, third.m.acceptor.leadsPrepared) {
		t.Fatalf("nobody leads:\n%s", l.showWords())
	}
	t.Logf("it leads after %v", l.now-began)
	if !l.run(10*labTiming.Patience, func() bool { return third.m.chain.Height() >= height }) {
		t.Fatalf("nothing is decided:\n%s", l.showWords())
	}
	for _, m := range third.m.View().Members {
		if want := btoi(slices.Contains(lost, m.Peer)); m.TermsLost != want {
			t.Errorf("%s lost %d terms, want %d", m.Peer.Short(), m.TermsLost, want)
		}
	}
}

// TestSomeElectorsMoveNobody (BYZANTINE a18): of 4 to 7 electors f say that a term is over, as
// often as they like and with whatever ballot. Nobody follows them. Where one more says so, all do,
// to the highest ballot that f+1 have reached.
func TestSomeElectorsMoveNobody(t *testing.T) {
	for _, n := range []int{4, 5, 7} {
		l := forkingLab(t, n, 0)
		a := l.peers[0]
		l.manual = true
		d, f := a.m.open, a.m.cfg.Rules.Liars(n)
		say := func(p *labPeer, term uint32) {
			promise := wire.Promise{Ref: d.position(d.ballot + term*slot.Tries)}
			if err := a.m.Step(l.now, labSigned(p, promise)); err != nil {
				t.Fatal(err)
			}
		}
		before := d.ballot
		for i := range f {
			say(l.peers[1+i], 1)
			say(l.peers[1+i], 1000*uint32(i+1))
		}
		if d.ballot != before || a.m.pledges.open.Floor() > before {
			t.Errorf("%d electors, of which %d make it follow ballot %d", n, f, d.ballot)
		}
		say(l.peers[1+f], 3)
		if d.ballot != before+3*slot.Tries || a.m.pledges.open.Floor() != d.ballot {
			t.Errorf("%d electors: follows ballot %d on the word of %d", n, d.ballot, f+1)
		}
	}
}

// TestNobodyRunsAhead: an elector for which a term is over goes one term further, and no other one
// until it hears that a quorum has come after it.
func TestNobodyRunsAhead(t *testing.T) {
	l := labOf(t, "ABC")
	a := l.peers[0]
	for _, p := range l.peers {
		p.stuck = true
		train(true, p)
	}
	l.awaits(t, "a plan", func() bool { return a.m.open.plan != nil })
	term := a.m.open.term()
	l.filters = []*labFilter{{to: a.name, left: -1}}
	l.rests(20 * labTiming.Patience)
	if got := a.m.open.term(); got > term+1 {
		t.Errorf("nobody is heard, and it is in term %d after %d", got, term)
	}
}

// TestPromisesAreRepeated while work is owed, to all members, so that a peer that was away finds
// the term of the others. The record of a lock goes to the ballot's leader alone.
func TestPromisesAreRepeated(t *testing.T) {
	l, a, _ := lockedLab(t)
	leader := a.m.open.leader(a.m.open.ballot).Peer
	var told []slot.PeerID
	shown := func() (n int) {
		for _, e := range a.m.Ready().Send {
			p, ok := e.Body.(wire.Promise)
			if !ok {
				continue
			}
			n++
			told = append(told, e.To...)
			if toLeader := slices.Equal(e.To, []slot.PeerID{leader}); p.Lock == nil || (p.Locked != nil) != toLeader {
				t.Errorf("to %v: %+v", e.To, p)
			}
		}
		return n
	}
	if n := shown(); n != 2 || len(told) != 3 {
		t.Fatalf("%d messages to %v", n, told)
	}
	for _, c := range []struct {
		after time.Duration
		want  int
	}{{labTiming.Retry / 2, 0}, {labTiming.Retry/2 + labTiming.tick(), 2}, {labTiming.Retry / 2, 0}} {
		l.now += c.after
		a.m.now = l.now
		a.m.pacemaker.watch()
		if n := shown(); n != c.want {
			t.Errorf("%v later: %d messages, not %d", c.after, n, c.want)
		}
	}
}

// TestATermHasFewOutcomes: each outcome that a leader drafts has to be fetched and kept. The fourth
// of one term is refused; what was drafted before may come again, and the next term counts anew.
func TestATermHasFewOutcomes(t *testing.T) {
	l := workingLab(t, "ABCD")
	m := l.peers[0].m
	leader := m.open.leader(m.open.ballot).Peer
	body := func(n byte) wire.Draft {
		r := stepRecord(m, "ABCD")
		r.Segments[0].Root = slot.Root{n}
		r = m.chain.Settle(r, chain.Turnover{Listed: m.chain.Members()})
		return draftOf(m.open.ballot, r, l.proofs(r.Contributions))
	}
	for n := range byte(3) {
		if err := m.participant.checkDraft(leader, body(n)); err != nil {
			t.Fatal(err)
		}
	}
	if err := m.participant.checkDraft(leader, body(3)); !errors.Is(err, chain.ErrInvalid) {
		t.Errorf("a fourth outcome: %v", err)
	}
	if err := m.participant.checkDraft(leader, body(1)); err != nil {
		t.Errorf("an outcome that was drafted before: %v", err)
	}
	m.pacemaker.next()
	if err := m.participant.checkOutcomes(slot.Root{3}); err != nil {
		t.Errorf("in the next term: %v", err)
	}
}

// TestAPromiseIsAnsweredWithWhatIsDecided: one of three is dead. Of the others one has left a
// record that was certified at the open height, so it decides nothing else there. It shows the
// certificate to who promises a ballot, whoever leads that.
func TestAPromiseIsAnsweredWithWhatIsDecided(t *testing.T) {
	for _, swap := range []bool{false, true} {
		l := labOf(t, "ABC")
		d := l.peers[0].m.open
		at := func(term uint32) *labPeer { return l.peer(labName(d.leader(term * slot.Tries).Peer)) }
		a, x := at(1), at(2)
		if swap {
			a, x = x, a
		}
		decided := wire.EntryDecided(wire.Commit{Record: stepRecord(x.m, "ABC")})
		x.m.pledges.open.Decided = &decided
		at(0).crash()
		train(true, a, x)
		l.filters = []*labFilter{{from: x.name, to: a.name, kind: "commit", left: -1, hold: true}}
		l.connect()
		if !l.run(10*labTiming.Patience, func() bool { return len(l.held) > 0 }) {
			t.Errorf("%s does not show %s what is decided:\n%s", x.name, a.name, l.showWords())
		}
	}
}

// TestAStepIsOwedAfterARestart: the leader, a liar, has shown its proposal to one other elector.
// All restart, and their offers are gone. The liar is heard and does nothing. The others have given
// HAVE for the step, so they decide it before anybody has trained again.
func TestAStepIsOwedAfterARestart(t *testing.T) {
	for _, n := range []int{4, 7} {
		l := forkingLab(t, n, 0)
		height, liar := l.peers[0].m.chain.Height(), -1
		proposes := func(p *labPeer) bool {
			lead := p.m.open.lead
			return lead != nil && lead.proposal != nil && p.m.chain.Height() > height
		}
		l.awaits(t, "the liar proposes", func() bool { liar = slices.IndexFunc(l.peers, proposes); return liar >= 0 })
		leader := l.peers[liar]
		voter, lead, open := l.others(leader)[0], leader.m.open.lead, leader.m.open.ref.Height
		_ = voter.step(labSigned(leader, wire.Propose{Vote: lead.draft.Vote, QC: lead.proposal}))
		for _, p := range l.peers {
			p.crash()
			p.slowness = time.Hour
		}
		l.queue = nil // all that was on its way is lost
		l.filters = []*labFilter{{
			from: leader.name, kind: "draft,propose,promise,have,vote,plan,retry,commit", left: -1,
		}}
		for _, p := range l.peers {
			p.start()
		}
		l.connect()
		if !l.run(10*labTiming.leastTerm(), func() bool { return voter.m.chain.Height() >= open }) {
			t.Errorf("%d electors:\n%s", n, l.showWords())
		}
	}
}

// TestALostPromiseIsShownAgain: of three electors one is locked, and leads the next term. Another
// has promised it, that PROMISE was lost, and it sees no work owed. The third does nothing.
func TestALostPromiseIsShownAgain(t *testing.T) {
	l := labOf(t, "ABC")
	d := l.peers[0].m.open
	at := func(term uint32) *labPeer { return l.peer(labName(d.leader(term * slot.Tries).Peer)) }
	locked, idle := at(1), at(2)
	own := stepRecord(locked.m, "ABC")
	for _, p := range l.peers {
		for _, s := range own.Segments {
			p.segments[s.Root] = true
		}
	}
	locked.m.pledges.open.Vote = &wire.EntryVote{
		Ref: d.position(0), Locked: wire.Locked{QC: *l.qc(own, "ABC"), Record: own},
	}
	l.filters = []*labFilter{
		{from: at(0).name, kind: "draft,propose,promise,have,vote,plan,retry,commit", left: -1},
		{from: idle.name, kind: "promise", left: 2},
	}
	for _, p := range []*labPeer{idle, locked} {
		p.m.acceptor.reach(slot.Tries)
		p.flush()
	}
	if !l.run(10*labTiming.Patience, func() bool { return locked.m.chain.Height() >= d.ref.Height }) {
		t.Errorf("\n%s", l.showWords())
	}
}

// TestRetriesAreAnsweredOnce: a leader that repeats RETRY at will has nobody send PROMISEs to all
// members each time.
func TestRetriesAreAnsweredOnce(t *testing.T) {
	l := forkingLab(t, 7, 0)
	l.manual = true
	d := l.peers[0].m.open
	leader := l.peer(labName(d.leader(0).Peer))
	a := l.others(leader)[0]
	a.m.Ready()
	sent := 0
	for i := range 100 {
		_ = a.m.Step(l.now+labTiming.Retry*time.Duration(i)/100, labSigned(leader, wire.Retry{Ref: d.position(1)}))
		for _, e := range a.m.Ready().Send {
			if _, ok := e.Body.(wire.Promise); ok {
				sent += len(e.To)
			}
		}
	}
	if most := 2 * len(l.peers); sent == 0 || sent > most {
		t.Errorf("%d PROMISEs within Retry, not up to %d", sent, most)
	}
}

// lockedLab has three peers, of which the first is locked on a record in ballot 0, and for which
// term 0 is over.
func lockedLab(t *testing.T) (l *lab, a *labPeer, own slot.Record) {
	l = labOf(t, "ABC")
	l.manual = true
	a = l.peers[0]
	own = stepRecord(a.m, "AB")
	locked := wire.Locked{QC: *l.qc(own, "ABC"), Record: own}
	a.m.pledges.open.Vote = &wire.EntryVote{Ref: a.m.open.position(0), Locked: locked}
	a.m.pacemaker.next()
	return l, a, own
}

// TestALockIsShownUntilTheLeaderDrafts: the record of a lock can be large. The ballot's leader gets
// it with each PROMISE until this peer has its draft, and not any more then.
func TestALockIsShownUntilTheLeaderDrafts(t *testing.T) {
	_, a, own := lockedLab(t)
	a.m.Ready()
	shown := func() (n int) {
		for range 100 {
			a.m.now += labTiming.Retry / 5
			a.m.pacemaker.watch()
			for _, e := range a.m.Ready().Send {
				if p, ok := e.Body.(wire.Promise); ok && p.Locked != nil {
					n++
				}
			}
		}
		return n
	}
	a.m.open.began = never // the term does not end
	if n := shown(); n != 20 {
		t.Errorf("before its leader's draft: %d times", n)
	}
	a.m.pledges.open.Have = &wire.EntryHave{Ref: a.m.open.position(a.m.open.ballot), Drafted: wire.Drafted{Record: own}}
	if n := shown(); n != 0 {
		t.Errorf("after it: %d times", n)
	}
}

// TestAnEchoMovesNobody: a liar repeats what a leader announced when it stood on another branch, to
// the leader itself. It does not take itself for one that has left, and gives its term up.
func TestAnEchoMovesNobody(t *testing.T) {
	a := labOf(t, "ABC").peers[0]
	tip := a.m.chain.Tip()
	old := wire.Alive{Height: tip.Height, Tip: testRoot(1), Branch: testRoot(2), Work: tip.Work}
	err := a.m.Step(a.m.now, wire.Message{From: a.id, Incarnation: a.inc, Body: old})
	if a.m.presence.onAnotherBranch(a.m.self) || !a.m.quorum.present(a.m.chain.Electorate()[0]) {
		t.Errorf("A is not where it stands any more: %v", err)
	}
}
