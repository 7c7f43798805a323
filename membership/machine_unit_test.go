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
	pm := &pacemaker{facts: &facts{cfg: Config{Timing: Timing{Patience: 3 * time.Second}}}}
	for b, want := range map[uint32]time.Duration{
		0: 3, slot.Tries - 1: 3, slot.Tries: 6, 4 * slot.Tries: 48, 5 * slot.Tries: 96, 6 * slot.Tries: 96,
		math.MaxUint32: 96,
	} {
		pm.height = &height{open: &openHeight{following: following{ballot: b}}}
		if got := pm.length(); got != want*time.Second {
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
	m.open.lead = newLeading(m.open.ref, 1, 0)
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
	m.open.lead.statesTooFew[labID("B")] = m.now
	expect(plan("ABCD"), nil, "")
	m.open.lead.statesTooFew[labID("B")] = m.now - m.cfg.Timing.Lost
	expect(plan("ABCD"), nil, "B") // it states what has too few contributors
	m.presence.known[memberKey{labID("C"), m.chain.Electorate()[2].Incarnation}].heard = never
	expect(plan("ABCD"), nil, "CB")
	// Of the last two, the one goes that fewer members reach.
	for _, a := range m.presence.known {
		if a.alive != nil {
			reaches := without(a.alive.Reaches, labID("B"))
			a.alive = &wire.Alive{Reaches: reaches, Links: make([]slot.Link, len(reaches))}
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
		// two of four are not most: four stragglers' time from the second, sixteen while there
		// is one
		{at("AB", 1, 5), 0, 45},
		{at("A", 1), 0, 161},
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

// TestHaveConditions: a valid draft gets a HAVE, and none as soon as one condition is missing.
func TestHaveConditions(t *testing.T) {
	l := labOf(t, "ABC")
	leader := l.leader()
	voter := l.others(leader)[0]
	record := stepRecord(voter.m, "AB")
	held := ReportHeld{Ref: voter.m.chain.Next(), Outcome: record.Outcome()}
	for _, c := range []struct {
		name    string
		prepare func(m *Machine, r *slot.Record, proofs []wire.OfferProof)
		gives   bool
	}{
		{"nothing missing", nil, true},
		{"outcome not held (H10)", func(m *Machine, _ *slot.Record, _ []wire.OfferProof) {
			clear(m.open.outcomes)
		}, false},
		{"another state root (H16)", func(_ *Machine, r *slot.Record, _ []wire.OfferProof) { r.StateRoot[0]++ }, false},
		{"state behind (H12)", func(m *Machine, _ *slot.Record, _ []wire.OfferProof) { m.model.state.height-- }, false},
		{"diverged", func(m *Machine, _ *slot.Record, _ []wire.OfferProof) { m.model.state.diverged = true }, false},
		{"below a promise (H2)", func(m *Machine, _ *slot.Record, _ []wire.OfferProof) {
			m.pledges.open.Promise = &wire.EntryPromise{Ref: m.open.position(3)}
		}, false},
		{"a later HAVE", func(m *Machine, _ *slot.Record, _ []wire.OfferProof) {
			m.pledges.open.Have = &wire.EntryHave{Ref: m.open.position(3), Drafted: wire.Drafted{Record: record}}
		}, false},
		{"another HAVE in the ballot (m7)", func(m *Machine, _ *slot.Record, _ []wire.OfferProof) {
			m.pledges.open.Have = &wire.EntryHave{Ref: m.open.position(0)}
		}, false},
		{"an offer that nobody signed", func(_ *Machine, _ *slot.Record, proofs []wire.OfferProof) {
			proofs[1].Sig = nil
		}, false},
		{"invalid", func(_ *Machine, r *slot.Record, _ []wire.OfferProof) { r.Work++ }, false},
	} {
		m, r, proofs := copyMachine(voter.m), record, l.proofs(record.Contributions)
		m.Report(l.now, held)
		if c.prepare != nil {
			c.prepare(m, &r, proofs)
		}
		m.Ready()
		_ = m.Step(l.now, labSigned(leader, draftOf(0, r, proofs)))
		ready := m.Ready()
		gives := sends[wire.Have](ready)
		saved := slices.ContainsFunc(ready.Persist, func(e wire.Entry) bool { _, ok := e.(wire.EntryHave); return ok })
		if gives != c.gives || gives && !saved {
			t.Errorf("%s: HAVE %v, on disk %v", c.name, gives, saved)
		}
		if !gives {
			continue
		}
		r.Members = members("A", 1) // H1: another record in the same ballot
		if err := m.Step(l.now, labSigned(leader, draftOf(0, r, proofs))); !errors.Is(err, chain.ErrInvalid) {
			t.Errorf("a second draft in the ballot: %v", err)
		}
		for _, e := range m.Ready().Send {
			if _, ok := e.Body.(wire.Evidence); !ok {
				t.Errorf("a second draft in the ballot is answered: %s", wire.TypeName(e.Body.Type()))
			}
		}
		if !m.evidence.evicted(memberKey{leader.id, leader.inc}) {
			t.Error("two drafts of one ballot are no evidence")
		}
	}
}

// sends says whether a machine sends a message of some type.
func sends[B wire.Body](r Ready) bool {
	return slices.ContainsFunc(r.Send, func(e wire.Envelope) bool { _, ok := e.Body.(B); return ok })
}

// qc is what the HAVEs of peers make of a record in ballot 0.
func (l *lab) qc(r slot.Record, names string) *wire.QC {
	q := &wire.QC{Hash: r.Hash()}
	for _, n := range names {
		p := l.peer(string(n))
		v := slot.Vote{Ref: slot.Ref{Height: r.Height, Prev: r.Prev}, Hash: q.Hash}
		q.Haves = append(q.Haves, wire.SignedHave{
			Peer: p.id, Incarnation: p.inc, Sig: labSigned(p, wire.Have{Vote: v}).Sig,
		})
	}
	return q
}

// TestVoteConditions: an elector votes for a draft with a QC of its ballot, and for nothing else
// (BYZANTINE m5). It needs neither the outcome nor the state.
func TestVoteConditions(t *testing.T) {
	l := labOf(t, "ABC")
	leader := l.leader()
	voter := l.others(leader)[0]
	record, grown := stepRecord(voter.m, "AB"), stepRecord(voter.m, "AB")
	grown.Members = insertMember(slices.Clone(grown.Members), voter.m.chain.Listing(labID("D"), 9))
	for _, c := range []struct {
		name    string
		record  slot.Record
		qc      *wire.QC
		prepare func(m *Machine)
		votes   bool
	}{
		{"a quorum of HAVEs", record, l.qc(record, "AB"), nil, true},
		{"too few", record, l.qc(record, "B"), nil, false},
		{"for another record", record, l.qc(grown, "AB"), nil, false},
		{"without the newcomer", grown, l.qc(grown, "ABC"), nil, false},
		{"of another incarnation", record, func() *wire.QC {
			q := l.qc(record, "AB")
			q.Haves[1].Incarnation++
			return q
		}(), nil, false},
		{"below a promise (H2)", record, l.qc(record, "AB"), func(m *Machine) {
			m.pledges.open.Promise = &wire.EntryPromise{Ref: m.open.position(3)}
		}, false},
		{"a later vote", record, l.qc(record, "AB"), func(m *Machine) {
			m.pledges.open.Vote = &wire.EntryVote{Ref: m.open.position(3)}
		}, false},
	} {
		m := copyMachine(voter.m)
		_ = m.Step(l.now, labSigned(leader, draftOf(0, c.record, l.proofs(c.record.Contributions))))
		if c.prepare != nil {
			c.prepare(m)
		}
		m.Ready()
		v := slot.Vote{Ref: m.open.position(0), Hash: c.record.Hash()}
		_ = m.Step(l.now, labSigned(leader, wire.Propose{Vote: v, QC: c.qc}))
		r := m.Ready()
		voted := sends[wire.Vote](r)
		saved := slices.ContainsFunc(r.Persist, func(e wire.Entry) bool {
			v, ok := e.(wire.EntryVote)
			return ok && v.QC.Hash == v.Record.Hash()
		})
		if voted != c.votes || saved != c.votes {
			t.Errorf("%s: voted %v, on disk %v", c.name, voted, saved)
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
	l.awaits(t, "C joins", in)
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
	train(true, l.peers...)
	l.run(time.Minute, func() bool { return m.chain.Tip().Slot >= 2 })
	for _, p := range l.peers {
		p.slowness = time.Hour
	}
	l.rests(2 * time.Second)
	c := l.peer("C")
	in := func() bool { return slot.Find(m.chain.Electorate(), c.id) >= 0 }
	began := m.chain.Tip()
	c.crash()
	l.connect()
	l.awaits(t, "C is dropped", func() bool { return !in() })
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

// A peer fetches a state when its chain changes, and so fetches another one. That the first fetch
// was given up is said late, and does not end the second.
func TestAStateThatIsNotWantedAnyMore(t *testing.T) {
	l := newLab(t, labRules(), labTiming)
	p := l.add("A")
	l.awaits(t, "slot 3", func() bool { return p.m.chain.Tip().Slot > 2 })
	state := &p.m.model.state
	*state = modelState{syncing: true, retryAt: never}
	p.m.model.syncs = 2
	p.m.Report(p.m.now, ReportFailed{Work: WorkSync{Number: 1}})
	if !state.syncing {
		t.Error("a fetch that was replaced ends the one that goes on")
	}
	*state = modelState{known: true, applying: p.m.chain.Height(), retryAt: never}
	other := p.m.chain.Tip()
	other.StateRoot[0] ^= 1
	p.m.Report(p.m.now, ReportFailed{Work: WorkApply{Record: other}})
	if state.applying == 0 {
		t.Error("a record of another chain ends the work on the one above")
	}
	p.m.Report(p.m.now, ReportFailed{Work: WorkApply{Record: p.m.chain.Tip()}})
	if state.applying != 0 {
		t.Error("a record that could not be applied is not tried again")
	}
}
