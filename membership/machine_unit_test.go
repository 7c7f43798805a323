package membership

import (
	"errors"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/chain"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

func TestLeaderTimeoutDoubles(t *testing.T) {
	ac := &acceptor{facts: &facts{cfg: Config{Timing: Timing{Patience: 3 * time.Second}}}}
	for b, want := range map[uint32]time.Duration{0: 3, 1: 6, 4: 48, 5: 96, 6: 96, math.MaxUint32: 96} {
		if got := ac.leaderTimeout(b); got != want*time.Second {
			t.Errorf("ballot %d: %v", b, got)
		}
	}
}

// TestFallen checks which peers count as gone, by what the peers of a group report of each other. A
// leads.
func TestFallen(t *testing.T) {
	const fresh, old = 0, -2 // seconds ago; Lost is less than two
	r := func(at time.Duration, pairs ...string) (rs []report) {
		for _, p := range pairs {
			rs = append(rs, report{labID(p[:1]), labID(p[1:]), wire.LostConnection, at * time.Second})
		}
		return rs
	}
	plan := func(names string) (p slot.Plan) {
		for _, n := range names {
			p.Offers = append(p.Offers, slot.Offer{Peer: labID(string(n))})
		}
		return p
	}
	m := labOf(t, "ABCDE").peer("A").m
	m.open.lead = newLeading(m.open.ref, 1)
	expect := func(p slot.Plan, reports []report, want string) {
		t.Helper()
		for i := range reports {
			reports[i].at += m.now
		}
		if got := labNames(m.planner.fallen(p, reports)); got != want {
			t.Errorf("%s of %s are gone, not %s: %v", got, labNames(offerers(p.Offers)), want, reports)
		}
	}
	// one word moves nothing
	expect(plan("ABCD"), r(old, "BC"), "")
	// two that cannot connect
	expect(plan("ABCD"), r(old, "BC", "CB"), "")
	// two such pairs
	expect(plan("ABCD"), r(old, "BC", "CB", "AD", "DA"), "")
	// most of the others
	expect(plan("ABCD"), r(fresh, "AD", "BD"), "D")
	// half of them
	expect(plan("ABCDE"), r(fresh, "AD", "BD"), "")
	// two at once
	expect(plan("ABCDE"), r(fresh, "AD", "BD", "CD", "AE", "BE", "CE"), "ED")
	// a liar, or cut off
	expect(plan("ABCDE"), r(fresh, "DA", "DB", "DC", "DE"), "")
	// it can reduce nothing
	expect(plan("ABCDE"), r(old, "DA", "DB", "DC", "DE"), "D")
	// two sides of a cut, and E that sees both
	expect(plan("ABCDE"), r(fresh, "AC", "AD", "BC", "BD", "CA", "CB", "DA", "DB"), "")
	// the leader's side stays
	expect(plan("ABCD"), r(fresh, "AC", "AD", "BC", "BD", "CA", "CB", "DA", "DB"), "DC")
	expect(plan("ABC"), r(old, "BC"), "") //
	// all others
	expect(plan("ABC"), r(fresh, "BC", "AC"), "C")
	// the leader, too
	expect(plan("ABC"), r(fresh, "BA", "CA"), "A")
	// the leader's own word, of two
	expect(plan("AB"), r(fresh, "AB"), "B")
	// C may have its own
	expect(plan("BC"), r(fresh, "BC"), "")
	// the accused
	expect(plan("BC"), r(old, "BC"), "C")
	expect(plan("BC"), r(old, "CB"), "B") //
	// the higher ID
	expect(plan("BC"), r(old, "BC", "CB"), "C")
	// not the leader: somebody must go
	expect(plan("AB"), r(old, "BA"), "B")
	// reports of a peer that is gone are void
	expect(withGone(plan("ABCD"), []slot.PeerID{labID("D")}), r(fresh, "DB", "DC", "CB"), "")
	// it says so itself
	expect(plan("ABCD"), r(fresh, "CC"), "C")
	m.open.lead.narrow[labID("B")] = m.now
	expect(plan("ABCD"), nil, "")
	m.open.lead.narrow[labID("B")] = m.now - m.cfg.Timing.Lost
	expect(plan("ABCD"), nil, "B") // it states what has too few contributors
	m.presence.known[memberKey{labID("C"), m.chain.Electorate()[2].Incarnation}].heard = never
	expect(plan("ABCD"), nil, "CB")
	// Of the last two, the one goes that fewer members reach.
	for _, a := range m.presence.known {
		if a.alive != nil {
			a.alive = &wire.Alive{Reaches: without(a.alive.Reaches, labID("B"))}
		}
	}
	expect(plan("BD"), r(old, "BD"), "B")
}

// TestGraceWindow: the leader waits for most, then for the window, and for no straggler longer than
// Straggler.
func TestGraceWindow(t *testing.T) {
	l := labOf(t, "ABCD")
	m := l.peer("A").m
	at := func(names string, times ...time.Duration) (os []slot.Offer) {
		for i, n := range names {
			os = append(os, slot.Offer{Peer: labID(string(n))})
			m.presence.known[memberKey{labID(string(n)), l.peer(string(n)).inc}].offerAt = times[i] * time.Second
		}
		return os
	}
	m.cfg.Timing.MinGrace, m.cfg.Timing.Straggler, m.cfg.Timing.GraceFactor = 2*time.Second, 10*time.Second, 2
	for _, c := range []struct {
		offers []slot.Offer
		spread time.Duration
		want   time.Duration
	}{
		// two of four are not most: four stragglers' time from the first
		{at("AB", 1, 5), 0, 41},
		{at("ABC", 1, 5, 6), 0, 8},     // the least grace after most have offered
		{at("ABC", 1, 5, 6), 3, 12},    // twice the recent spread
		{at("ABC", 1, 5, 6), 3600, 16}, // never longer than for one straggler
	} {
		m.history.spreads = [recentSlots]time.Duration{c.spread * time.Second}
		_ = at(labNames(offerers(c.offers)), []time.Duration{1, 5, 6}[:len(c.offers)]...)
		if got := m.history.graceEnds(c.offers, 4); got != c.want*time.Second {
			t.Errorf("%d offers, spread %d: ends at %v, not %d s", len(c.offers), c.spread, got, c.want)
		}
	}
}

// TestVoteConditions: a valid proposal gets a vote, and none as soon as one condition is missing.
func TestVoteConditions(t *testing.T) {
	l := labOf(t, "ABC")
	leader := l.peer(labName(l.peers[0].m.open.leader(0).Peer))
	voter := l.peers[0]
	if voter == leader {
		voter = l.peers[1]
	}
	record := stepRecord(voter.m, "AB")
	held := ReportHeld{Ref: voter.m.chain.Next(), Outcome: record.Outcome()}
	for _, c := range []struct {
		name    string
		prepare func(m *Machine, p *wire.Propose)
		votes   bool
	}{
		{"nothing missing", func(m *Machine, _ *wire.Propose) { m.Report(l.now, held) }, true},
		{"outcome not held (H10)", func(*Machine, *wire.Propose) {}, false},
		{
			"another state root (H16)", func(m *Machine,
				p *wire.Propose,
			) {
				m.Report(l.now, held)
				p.Record.StateRoot[0]++
			},
			false,
		},
		{
			"state behind (H12)", func(m *Machine, _ *wire.Propose) { m.Report(l.now, held); m.model.state.height-- },
			false,
		},
		{"diverged", func(m *Machine, _ *wire.Propose) { m.Report(l.now, held); m.model.state.diverged = true }, false},
		{"below a promise (H2)", func(m *Machine, _ *wire.Propose) {
			m.Report(l.now, held)
			m.pledges.open.Promise = &wire.EntryPromise{Ref: m.open.at(3)}
		}, false},
		{"a later vote", func(m *Machine, _ *wire.Propose) {
			m.Report(l.now, held)
			m.pledges.open.Vote = &wire.EntryVote{Ref: m.open.at(3), Record: record}
		}, false},
		{"an offer that nobody signed", func(m *Machine, p *wire.Propose) {
			m.Report(l.now, held)
			p.Proofs[1].Sig = nil
		}, false},
		{"invalid", func(m *Machine, p *wire.Propose) { m.Report(l.now, held); p.Record.Work++ }, false},
	} {
		m, p := copyMachine(voter.m), wire.Propose{Record: record, Proofs: l.proofs(record.Contributions)}
		c.prepare(m, &p)
		m.Ready()
		_ = m.Step(l.now, wire.Message{From: leader.id, Incarnation: leader.inc, Body: p})
		r := m.Ready()
		voted := slices.ContainsFunc(r.Send, func(e wire.Envelope) bool { _, ok := e.Body.(wire.Vote); return ok })
		saved := slices.ContainsFunc(r.Persist, func(e wire.Entry) bool { _, ok := e.(wire.EntryVote); return ok })
		if voted != c.votes || saved != c.votes {
			t.Errorf("%s: voted %v, on disk %v", c.name, voted, saved)
		}
		if !voted {
			continue
		}
		p.Record.Members = members("A", 1) // H1: another record in the same ballot
		if err := m.Step(l.now, wire.Message{From: leader.id, Incarnation: leader.inc, Body: p}); !errors.Is(err,
			chain.ErrInvalid) {
			t.Errorf("a second proposal in the ballot: %v", err)
		}
		if r := m.Ready(); len(r.Send) > 0 {
			t.Error("a second proposal in the ballot is answered")
		}
	}
}

// TestCopyIsDeep: the explorer's copies share nothing that a machine changes.
func TestCopyIsDeep(t *testing.T) {
	l := labOf(t, "ABC")
	m := l.peer("A").m
	before, c := fingerprint(m), copyMachine(m)
	if fingerprint(c) != before {
		t.Fatal("a copy differs")
	}
	for i := range 50 {
		c.Tick(l.now + time.Duration(i)*time.Second)
		c.Report(l.now, ReportOffer{Slot: 1, Weight: 1})
		c.Report(l.now, ReportConnected{Peer: labID("Q"), Connected: true})
		for _, e := range c.Ready().Send {
			_ = c.Step(l.now, wire.Message{From: m.cfg.Self, Incarnation: m.cfg.Incarnation, Body: e.Body})
		}
	}
	if fingerprint(m) != before {
		t.Fatal("what happened to a copy happened to the machine")
	}
}

// TestChooseSetsAside: a vote whose state root is not ours is not carried if a quorum without it
// has promised (H16).
func TestChooseSetsAside(t *testing.T) {
	l := labOf(t, "ABC")
	m := l.peer("A").m
	wrong := stepRecord(m, "AB")
	wrong.StateRoot[0]++
	right := stepRecord(m, "AC")
	promise := func(ballot uint32, r slot.Record) wire.Promise {
		return wire.Promise{Ref: m.open.at(9), Voted: true, VoteBallot: ballot, VoteRecord: r}
	}
	none := wire.Promise{Ref: m.open.at(9)}
	for _, c := range []struct {
		name     string
		promises map[string]wire.Promise
		prepared bool
		forced   *slot.Record
	}{
		{"no quorum", map[string]wire.Promise{"A": none}, false, nil},
		{"free", map[string]wire.Promise{"A": none, "B": none}, true, nil},
		{"one vote", map[string]wire.Promise{"A": none, "B": promise(2, right)}, true, &right},
		{"the wrong one only", map[string]wire.Promise{"A": none, "C": promise(3, wrong)}, false, nil},
		{"without the wrong one", map[string]wire.Promise{"A": none, "B": none, "C": promise(3, wrong)}, true, nil},
		{
			"without the wrong one, a vote",
			map[string]wire.Promise{"A": none, "B": promise(2, right), "C": promise(3, wrong)},
			true, &right,
		},
		{"wrong below right", map[string]wire.Promise{"B": promise(4, right), "C": promise(3, wrong)}, true, &right},
	} {
		m := copyMachine(m)
		m.open.lead = newLeading(m.open.at(9), 1)
		for p, promise := range c.promises {
			m.open.lead.promises[labID(p)] = promise
		}
		m.candidate.choose()
		got := m.open.lead
		if got.prepared != c.prepared || (got.forced == nil) != (c.forced == nil) || c.forced != nil &&
			got.forced.Hash() != c.forced.Hash() {
			t.Errorf("%s: prepared %v, forced %v", c.name, got.prepared, got.forced)
		}
	}
}

// A clock that is said to have gone back changes nothing: the machine's time stands until it is
// past again.
func TestATimeThatGoesBackIsNotTaken(t *testing.T) {
	l := labOf(t, "AB")
	m := l.peer("A").m
	l.run(time.Minute, func() bool { return m.chain.Tip().Slot >= 2 })
	at := m.now
	_ = m.Ready()
	m.Tick(at - time.Hour)
	m.Report(at-time.Hour, ReportContributes{Contributes: true})
	for _, e := range m.Ready().Events {
		if e.Kind == EventSuspected || e.Kind == EventPaused {
			t.Errorf("%s after the time went back", e.Kind)
		}
	}
	if m.now != at {
		t.Errorf("the machine's time went from %v to %v", at, m.now)
	}
}

// No joiner holds up a slot. A peer that became a member after the slot had begun is not waited
// for, unless nobody else contributes.
func TestWhoCameDuringASlotIsNotWaitedFor(t *testing.T) {
	l := labOf(t, "AB")
	m := l.peer("A").m
	l.run(time.Minute, func() bool { return m.chain.Tip().Slot >= 2 })
	c := l.add("C")
	c.slowness = time.Hour
	in := func() bool { return slot.Find(m.chain.Electorate(), c.id) >= 0 }
	if !l.run(time.Minute, in) {
		t.Fatal("C did not join")
	}
	member := m.chain.Electorate()[slot.Find(m.chain.Electorate(), c.id)]
	listedBy := func(kinds ...slot.Kind) { // which record listed it, after which one, is chance
		was := m.chain
		m.chain = was.UpTo(member.Since - uint64(len(kinds)))
		for i, kind := range kinds {
			r := was.At(member.Since - uint64(len(kinds)-1-i))
			r.Kind = kind
			m.chain.Push(wire.Commit{Record: r})
		}
	}
	listedBy(slot.Step, slot.Members)
	others, own := []slot.Offer{{Peer: labID("A")}, {Peer: labID("B")}}, []slot.Offer{}
	if m.planner.mayStillOffer(member, others) {
		t.Error("a member that came during the slot is waited for")
	}
	if !m.planner.mayStillOffer(member, own) {
		t.Error("nobody else contributes, and it is not waited for")
	}
	listedBy(slot.Members, slot.Step)
	if !m.planner.mayStillOffer(member, others) {
		t.Error("a member that began with the slot is not waited for")
	}
}

// A peer that was a member when the slot began, was lost for a while and is listed again since, has
// done its inner steps like the others.
func TestWhoCameBackDuringASlotIsWaitedFor(t *testing.T) {
	l := labOf(t, "ABC")
	m := l.peer("A").m
	for _, p := range l.peers {
		p.trains = true
		p.report(ReportContributes{Contributes: true})
	}
	l.run(time.Minute, func() bool { return m.chain.Tip().Slot >= 2 })
	for _, p := range l.peers {
		p.slowness = time.Hour
	}
	l.run(2*time.Second, func() bool { return false })
	c := l.peer("C")
	in := func() bool { return slot.Find(m.chain.Electorate(), c.id) >= 0 }
	began := m.chain.Tip()
	c.crash()
	l.connect()
	if !l.run(time.Minute, func() bool { return !in() }) {
		t.Fatal("C is not dropped")
	}
	c.start()
	l.connect()
	if !l.run(time.Minute, in) || m.chain.Tip().Slot != began.Slot {
		t.Fatal("C is not listed again in the same slot")
	}
	member := m.chain.Electorate()[slot.Find(m.chain.Electorate(), c.id)]
	if member.Since <= began.Height || !m.planner.mayStillOffer(member,
		[]slot.Offer{{Peer: labID("A")}, {Peer: labID("B")}}) {
		t.Errorf("a member since %d that began with slot %d is not waited for", member.Since, began.Slot+1)
	}
}
