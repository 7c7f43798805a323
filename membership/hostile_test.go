package membership

import (
	"bytes"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// A stranger that recorded a member's messages and sends them again on its own streams moves
// nobody: a LEAVE of the last time would drop the member, an old ALIVE would keep a dead one alive.
func TestReplayedMessagesAreNotTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSwarm(t, simRules(0, 5)) // held at slot 0
		a, b := s.start(1, newSimDisk(s, 1)), s.start(2, newSimDisk(s, 2))
		a.await("two members", func(v View) bool { return len(v.Members) == 2 })
		left := mustSeal(t, b.signer, s.rules.Run, b.driver.Incarnation(), wire.Leave{})
		stranger := newTestSigner(9).ID()
		for range 40 {
			a.driver.Deliver(stranger, left)
			b.driver.Deliver(stranger, left)
			time.Sleep(s.timing.Beat)
		}
		if v := a.driver.View(); len(v.Members) != 2 || v.Tip.Height > 2 || v.Members[0].Leaving ||
			v.Members[1].Leaving {
			t.Errorf("a replayed LEAVE counts: %+v", v.Members)
		}
		alive := mustSeal(t, b.signer, s.rules.Run, b.driver.Incarnation(), wire.Alive{})
		s.kill(b)
		for range 20 {
			a.driver.Deliver(stranger, alive)
			time.Sleep(s.timing.Beat)
		}
		if v := a.driver.View(); slices.ContainsFunc(v.Members,
			func(m MemberView) bool { return m.Peer == b.signer.ID() && !m.Lost }) {
			t.Errorf("a replayed ALIVE keeps a dead member alive: %+v", v.Members)
		}
		if n := a.driver.verifier.blame.bads(); n != 60 {
			t.Errorf("%d bad messages counted", n)
		}
		s.end()
	})
}

// A flood of questions for records costs what the buckets hold, under one name and under many.
func TestQuestionsForRecordsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, out := newSwarm(t, simRules(0, 5)), &sink{}
		p := &simPeer{swarm: s, signer: newTestSigner(1), disk: newSimDisk(s, 1), cut: map[slot.PeerID]bool{}}
		s.run(p, DriverConfig{Transport: out}, p)
		p.await("the founding", func(v View) bool { return v.Tip.Height > 0 })
		synctest.Wait()
		before := out.sent
		flood := func(asker testSigner, n int) {
			b := mustSeal(t, asker, s.rules.Run, 5, wire.Need{From: 1})
			for range n {
				p.driver.Deliver(asker.ID(), b)
				synctest.Wait()
			}
		}
		flood(newTestSigner(2), 2*answersBurst)
		if n := out.sent - before; n != answersBurst/answersOfMany {
			t.Errorf("one asker got %d records at once", n)
		}
		for i := range byte(answersMost/answersBurst + 2) {
			flood(newTestSigner(i+3), answersBurst)
		}
		if n := out.sent - before; n != answersMost/answersOfMany {
			t.Errorf("many askers got %d records at once", n)
		}
		time.Sleep(time.Second)
		before = out.sent
		flood(newTestSigner(2), 2*answersBurst)
		// the node's own few messages are among them
		if n := out.sent - before; n < answersPerPeer/answersOfMany || n > answersPerPeer/answersOfMany+4 {
			t.Errorf("a second later %d more", n)
		}
		s.end()
	})
}

func TestAnswersForgetAskers(t *testing.T) {
	a, now := newAnswers(), time.Now()
	for i := range 3 * answersPeers {
		a.allow(slot.PeerID(fmt.Sprint(i)), wire.Need{}, now.Add(time.Duration(i)*time.Second))
		if len(a.mu.by) > answersPeers {
			t.Fatalf("%d askers remembered", len(a.mu.by))
		}
	}
}

// However many ask for records, a candidate is heard, and a leader.
func TestQuestionsDoNotSilenceLeaders(t *testing.T) {
	a, now := newAnswers(), time.Now()
	for i := range int(answersMost) + 1 {
		a.allow(slot.PeerID(fmt.Sprint(i)), wire.Need{}, now)
	}
	if a.allow("late", wire.Need{}, now) {
		t.Error("the common bucket has no end")
	}
	for range int(answersBurst) {
		if !a.allow("leader", wire.Promise{}, now) || !a.allow("leader", wire.Beat{}, now) {
			t.Fatal("a leader is not heard")
		}
	}
	if a.allow("leader", wire.Propose{}, now) {
		t.Error("one peer's bucket has no end")
	}
}

// A liar with many names does not fill the log either.
func TestBlameBoundsTheLog(t *testing.T) {
	var log bytes.Buffer
	b := newBlame(slog.New(slog.NewTextHandler(&log, nil)))
	for i := range 20 * inboxPeers {
		b.bad(slot.PeerID(fmt.Sprint(i)), wire.ErrSignature)
	}
	if n := strings.Count(log.String(), "\n"); n < blameLines || n > 2*blameLines+20*inboxPeers/blameLines {
		t.Errorf("%d lines", n)
	}
}

// Words said on a chain that was given up come back from disk (HOLES H7): the chain may come back,
// too, and a peer that forgot its vote there could contradict it.
func TestStoreKeepsWordsElsewhere(t *testing.T) {
	run := testRoot(1)
	genesis := slot.Genesis(run)
	record := func(state byte) slot.Record {
		return slot.Record{Run: run, Height: 1, Kind: slot.Fork, Prev: genesis.Hash(), StateRoot: testRoot(state)}
	}
	mine, other := record(1), record(2)
	at := slot.Ref{Height: 2, Prev: mine.Hash(), Ballot: 3}
	s := newMemoryStore(run, 7)
	voted := slot.Record{Run: run, Height: 2, Kind: slot.Members, Prev: mine.Hash()}
	entries := []wire.Entry{
		wire.EntryCommit{Record: mine},
		wire.EntryPromise{Ref: at},
		wire.EntryVote{Ref: at, Locked: wire.Locked{Record: voted}},
		wire.EntryRewind{},
		wire.EntryCommit{Record: other},
		wire.EntryPromise{Ref: slot.Ref{Height: 2, Prev: other.Hash(), Ballot: 1}},
	}
	if err := s.Save(entries); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		saved, err := s.Load()
		if err != nil {
			t.Fatal(err)
		}
		if len(saved.Elsewhere) != 1 || saved.Promise == nil || saved.Promise.Ballot != 1 || saved.Vote != nil {
			t.Errorf("loaded %+v", saved)
		}
		w := saved.Elsewhere[wire.Position{Height: at.Height, Prev: at.Prev}]
		if w.Promise == nil || w.Promise.Ref != at || w.Vote == nil || w.Vote.Ref != at ||
			w.Vote.Record.Hash() != voted.Hash() {
			t.Errorf("elsewhere: %+v", w)
		}
		s = s.Restart()
	}
}
