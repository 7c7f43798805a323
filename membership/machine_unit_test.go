package membership

import (
	"errors"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

func TestPatienceDoubles(t *testing.T) {
	m := &Machine{cfg: Config{Timing: Timing{Patience: 3 * time.Second}}}
	for b, want := range map[uint32]time.Duration{0: 3, 1: 6, 4: 48, 5: 96, 6: 96, math.MaxUint32: 96} {
		if got := m.patience(b); got != want*time.Second {
			t.Errorf("ballot %d: %v", b, got)
		}
	}
}

// TestFallen: who is taken for gone, by what the peers of a group say of each other. A leads.
func TestFallen(t *testing.T) {
	const fresh, old = 0, -2 // seconds ago; Lost is less than two
	r := func(at time.Duration, pairs ...string) (rs []report) {
		for _, p := range pairs {
			rs = append(rs, report{labID(p[:1]), labID(p[1:]), LostConnection, at * time.Second})
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
		if got := labNames(m.fallen(p, reports)); got != want {
			t.Errorf("%s of %s are gone, not %s: %v", got, labNames(offerers(p.Offers)), want, reports)
		}
	}
	expect(plan("ABCD"), r(old, "BC"), "")                                                    // one word moves nothing
	expect(plan("ABCD"), r(old, "BC", "CB"), "")                                              // two that cannot connect
	expect(plan("ABCD"), r(old, "BC", "CB", "AD", "DA"), "")                                  // two such pairs
	expect(plan("ABCD"), r(fresh, "AD", "BD"), "D")                                           // most of the others
	expect(plan("ABCDE"), r(fresh, "AD", "BD"), "")                                           // half of them
	expect(plan("ABCDE"), r(fresh, "AD", "BD", "CD", "AE", "BE", "CE"), "ED")                 // two at once
	expect(plan("ABCDE"), r(fresh, "DA", "DB", "DC", "DE"), "")                               // a liar, or cut off
	expect(plan("ABCDE"), r(old, "DA", "DB", "DC", "DE"), "D")                                // it can reduce nothing
	expect(plan("ABCDE"), r(fresh, "AC", "AD", "BC", "BD", "CA", "CB", "DA", "DB"), "")       // two sides of a cut, and E that sees both
	expect(plan("ABCD"), r(fresh, "AC", "AD", "BC", "BD", "CA", "CB", "DA", "DB"), "DC")      // the leader's side stays
	expect(plan("ABC"), r(old, "BC"), "")                                                     //
	expect(plan("ABC"), r(fresh, "BC", "AC"), "C")                                            // all others
	expect(plan("ABC"), r(fresh, "BA", "CA"), "A")                                            // the leader, too
	expect(plan("AB"), r(fresh, "AB"), "B")                                                   // the leader's own word, of two
	expect(plan("BC"), r(fresh, "BC"), "")                                                    // C may have its own
	expect(plan("BC"), r(old, "BC"), "C")                                                     // the accused
	expect(plan("BC"), r(old, "CB"), "B")                                                     //
	expect(plan("BC"), r(old, "BC", "CB"), "C")                                               // the higher ID
	expect(plan("AB"), r(old, "BA"), "B")                                                     // not the leader: somebody must go
	expect(withGone(plan("ABCD"), []slot.PeerID{labID("D")}), r(fresh, "DB", "DC", "CB"), "") // the word of who is gone is void
	expect(plan("ABCD"), r(fresh, "CC"), "C")                                                 // it says so itself
	m.open.lead.narrow[labID("B")] = m.now
	expect(plan("ABCD"), nil, "")
	m.open.lead.narrow[labID("B")] = m.now - m.cfg.Timing.Lost
	expect(plan("ABCD"), nil, "B") // it states what has too few contributors
	m.presence.known[who{labID("C"), m.chain.electorate()[2].Incarnation}].heard = never
	expect(plan("ABCD"), nil, "CB")
	// Of the last two, whom fewer members reach.
	for _, a := range m.presence.known {
		if a.alive != nil {
			a.alive = &Alive{Reaches: without(a.alive.Reaches, labID("B"))}
		}
	}
	expect(plan("BD"), r(old, "BD"), "B")
}

// TestGraceWindow: the leader waits for most, then for the window, and for no straggler longer than Straggler.
func TestGraceWindow(t *testing.T) {
	l := labOf(t, "ABCD")
	m := l.peer("A").m
	at := func(names string, times ...time.Duration) (os []slot.Offer) {
		for i, n := range names {
			os = append(os, slot.Offer{Peer: labID(string(n))})
			m.presence.known[who{labID(string(n)), l.peer(string(n)).inc}].offerAt = times[i] * time.Second
		}
		return os
	}
	m.cfg.Timing.MinGrace, m.cfg.Timing.Straggler, m.cfg.Timing.GraceFactor = 2*time.Second, 10*time.Second, 2
	for _, c := range []struct {
		offers []slot.Offer
		spread time.Duration
		want   time.Duration
	}{
		{at("AB", 1, 5), 0, 41},        // two of four are not most: four stragglers' time from the first
		{at("ABC", 1, 5, 6), 0, 8},     // the least grace after most have offered
		{at("ABC", 1, 5, 6), 3, 12},    // twice the recent spread
		{at("ABC", 1, 5, 6), 3600, 16}, // never longer than for one straggler
	} {
		m.spreads = [recentSlots]time.Duration{c.spread * time.Second}
		_ = at(labNames(offerers(c.offers)), []time.Duration{1, 5, 6}[:len(c.offers)]...)
		if got := m.graceEnds(c.offers, 4); got != c.want*time.Second {
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
	held := ReportHeld{Ref: voter.m.chain.next(), Outcome: record.Outcome()}
	for _, c := range []struct {
		name    string
		prepare func(m *Machine, p *Propose)
		votes   bool
	}{
		{"nothing missing", func(m *Machine, _ *Propose) { m.Report(l.now, held) }, true},
		{"outcome not held (H10)", func(*Machine, *Propose) {}, false},
		{"another state root (H16)", func(m *Machine, p *Propose) { m.Report(l.now, held); p.Record.StateRoot[0]++ }, false},
		{"state behind (H12)", func(m *Machine, _ *Propose) { m.Report(l.now, held); m.state.height-- }, false},
		{"diverged", func(m *Machine, _ *Propose) { m.Report(l.now, held); m.state.diverged = true }, false},
		{"below a promise (H2)", func(m *Machine, _ *Propose) {
			m.Report(l.now, held)
			m.open.word.promise = &EntryPromise{m.open.at(3)}
		}, false},
		{"a later vote", func(m *Machine, _ *Propose) {
			m.Report(l.now, held)
			m.open.word.vote = &EntryVote{m.open.at(3), record}
		}, false},
		{"invalid", func(m *Machine, p *Propose) { m.Report(l.now, held); p.Record.Work++ }, false},
	} {
		m, p := copyMachine(voter.m), Propose{Record: record}
		c.prepare(m, &p)
		m.Ready()
		_ = m.Step(l.now, Message{From: leader.id, Incarnation: leader.inc, Body: p})
		r := m.Ready()
		voted := slices.ContainsFunc(r.Send, func(e Envelope) bool { _, ok := e.Body.(Vote); return ok })
		saved := slices.ContainsFunc(r.Persist, func(e Entry) bool { _, ok := e.(EntryVote); return ok })
		if voted != c.votes || saved != c.votes {
			t.Errorf("%s: voted %v, on disk %v", c.name, voted, saved)
		}
		if !voted {
			continue
		}
		p.Record.Members = members("A", 1) // H1: another record in the same ballot
		if err := m.Step(l.now, Message{From: leader.id, Incarnation: leader.inc, Body: p}); !errors.Is(err, ErrInvalid) {
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
			_ = c.Step(l.now, Message{From: m.cfg.Self, Incarnation: m.cfg.Incarnation, Body: e.Body})
		}
	}
	if fingerprint(m) != before {
		t.Fatal("what happened to a copy happened to the machine")
	}
}

// TestChooseSetsAside: a vote whose state root is not ours is not carried if a quorum without it has promised (H16).
func TestChooseSetsAside(t *testing.T) {
	l := labOf(t, "ABC")
	m := l.peer("A").m
	wrong := stepRecord(m, "AB")
	wrong.StateRoot[0]++
	right := stepRecord(m, "AC")
	promise := func(ballot uint32, r slot.Record) Promise {
		return Promise{Ref: m.open.at(9), Voted: true, VoteBallot: ballot, VoteRecord: r}
	}
	none := Promise{Ref: m.open.at(9)}
	for _, c := range []struct {
		name     string
		promises map[string]Promise
		prepared bool
		forced   *slot.Record
	}{
		{"no quorum", map[string]Promise{"A": none}, false, nil},
		{"free", map[string]Promise{"A": none, "B": none}, true, nil},
		{"one vote", map[string]Promise{"A": none, "B": promise(2, right)}, true, &right},
		{"the wrong one only", map[string]Promise{"A": none, "C": promise(3, wrong)}, false, nil},
		{"without the wrong one", map[string]Promise{"A": none, "B": none, "C": promise(3, wrong)}, true, nil},
		{"without the wrong one, a vote", map[string]Promise{"A": none, "B": promise(2, right), "C": promise(3, wrong)}, true, &right},
		{"wrong below right", map[string]Promise{"B": promise(4, right), "C": promise(3, wrong)}, true, &right},
	} {
		m := copyMachine(m)
		m.open.lead = newLeading(m.open.at(9), 1)
		for p, promise := range c.promises {
			m.open.lead.promises[labID(p)] = promise
		}
		m.choose()
		got := m.open.lead
		if got.prepared != c.prepared || (got.forced == nil) != (c.forced == nil) || c.forced != nil && got.forced.Hash() != c.forced.Hash() {
			t.Errorf("%s: prepared %v, forced %v", c.name, got.prepared, got.forced)
		}
	}
}

// A clock that is said to have gone back changes nothing: the machine's time stands until it is past again.
func TestATimeThatGoesBackIsNotTaken(t *testing.T) {
	l := labOf(t, "AB")
	m := l.peer("A").m
	l.run(time.Minute, func() bool { return m.chain.tip().Slot >= 2 })
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

// No joiner holds up a slot: who became a member after it had begun is not waited for, unless nobody else contributes.
func TestWhoCameDuringASlotIsNotWaitedFor(t *testing.T) {
	l := labOf(t, "AB")
	m := l.peer("A").m
	l.run(time.Minute, func() bool { return m.chain.tip().Slot >= 2 })
	c := l.add("C")
	c.slowness = time.Hour
	in := func() bool { return slot.Find(m.chain.electorate(), c.id) >= 0 }
	if !l.run(time.Minute, in) {
		t.Fatal("C did not join")
	}
	member := m.chain.electorate()[slot.Find(m.chain.electorate(), c.id)]
	m.chain.stepHeight = member.Since - 1 // whether a members record or a step listed it is chance
	others, own := []slot.Offer{{Peer: labID("A")}, {Peer: labID("B")}}, []slot.Offer{}
	if m.mayStillOffer(member, others) {
		t.Error("a member that came during the slot is waited for")
	}
	if !m.mayStillOffer(member, own) {
		t.Error("nobody else contributes, and it is not waited for")
	}
	m.chain.stepHeight = member.Since
	if !m.mayStillOffer(member, others) {
		t.Error("a member that began with the slot is not waited for")
	}
}

// Who was a member when the slot began, was lost for a while and is listed again since, has its inner steps done like the others.
func TestWhoCameBackDuringASlotIsWaitedFor(t *testing.T) {
	l := labOf(t, "ABC")
	m := l.peer("A").m
	for _, p := range l.peers {
		p.trains = true
		p.report(ReportContributes{Contributes: true})
	}
	l.run(time.Minute, func() bool { return m.chain.tip().Slot >= 2 })
	for _, p := range l.peers {
		p.slowness = time.Hour
	}
	l.run(2*time.Second, func() bool { return false })
	c := l.peer("C")
	in := func() bool { return slot.Find(m.chain.electorate(), c.id) >= 0 }
	began := m.chain.tip()
	c.crash()
	l.connect()
	if !l.run(time.Minute, func() bool { return !in() }) {
		t.Fatal("C is not dropped")
	}
	c.start()
	l.connect()
	if !l.run(time.Minute, in) || m.chain.tip().Slot != began.Slot {
		t.Fatal("C is not listed again in the same slot")
	}
	member := m.chain.electorate()[slot.Find(m.chain.electorate(), c.id)]
	if member.Since <= began.Height || !m.mayStillOffer(member, []slot.Offer{{Peer: labID("A")}, {Peer: labID("B")}}) {
		t.Errorf("a member since %d that began with slot %d is not waited for", member.Since, began.Slot+1)
	}
}
