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

// byzantineLab is a run of trust byzantine whose members stand still.
func byzantineLab(t *testing.T, names string) *lab {
	return labOf(t, names, func(r *chain.Rules) { r.Byzantine, r.StartPeers = true, len(names) })
}

// named is a set over ABCDEFG.
func named(names string) slot.Bitmap {
	set := slot.NewBitmap(7)
	for _, n := range names {
		set.Set(int(n - 'A'))
	}
	return set
}

// TestDropsNeedProof drops G of seven members, of which five are a quorum.
func TestDropsNeedProof(t *testing.T) {
	member := func(n rune) slot.Member {
		return slot.Member{Peer: labID(string(n)), Incarnation: slot.Incarnation(n), Since: uint64(n - 'A' + 1)}
	}
	var before []slot.Member
	for _, n := range "ABCDEFG" {
		before = append(before, member(n))
	}
	g := member('G')
	state := func(by, unheard, mute string) (ss []wire.SignedStatement) {
		for _, n := range by {
			m := member(n)
			ss = append(ss, wire.SignedStatement{
				Peer: m.Peer, Incarnation: m.Incarnation, Unheard: named(unheard), Mute: named(mute),
			})
		}
		return ss
	}
	again := state("ABCDE", "G", "")
	again[4].Incarnation++
	evidence := evidenceOf(
		wire.Message{From: g.Peer, Incarnation: g.Incarnation, Body: wire.Vote{Vote: slot.Vote{Hash: slot.Root{1}}}},
		wire.Message{From: g.Peer, Incarnation: g.Incarnation, Body: wire.Vote{Vote: slot.Vote{Hash: slot.Root{2}}}})
	none, others := evidence, evidence
	none.Second = none.First
	others.Incarnation++
	leave := wire.SignedLeave{Peer: g.Peer, Incarnation: g.Incarnation, Leave: wire.Leave{Since: g.Since}}
	old, stranger := leave, leave
	old.Since--
	stranger.Incarnation++
	access := func(action slot.Action, n rune) slot.Record {
		return slot.Record{
			Kind: slot.Access, Members: before[:6],
			Decisions: []slot.Decision{{Action: action, Peer: labID(string(n))}},
		}
	}
	step, two := slot.Record{Kind: slot.Step, Members: before[:6]}, slot.Record{Members: before[:5]}
	other := slot.Record{Members: append(before[:6:6], slot.Member{Peer: g.Peer})}
	left := wire.Attachments{Leaves: []wire.SignedLeave{leave}}
	both := left
	both.Statements = state("ABCDE", "F", "")
	mixed := append(state("ABC", "G", ""), state("DE", "", "G")...)
	for name, c := range map[string]struct {
		r    slot.Record
		a    wire.Attachments
		want bool
	}{
		"nobody is dropped":             {slot.Record{Members: before}, wire.Attachments{}, true},
		"no proof":                      {step, wire.Attachments{}, false},
		"its leave":                     {step, left, true},
		"a leave of an old membership":  {step, wire.Attachments{Leaves: []wire.SignedLeave{old}}, false},
		"a leave of another life":       {step, wire.Attachments{Leaves: []wire.SignedLeave{stranger}}, false},
		"evidence":                      {step, wire.Attachments{Evidence: []wire.Evidence{evidence}}, true},
		"evidence of nothing":           {step, wire.Attachments{Evidence: []wire.Evidence{none}}, false},
		"evidence against another life": {step, wire.Attachments{Evidence: []wire.Evidence{others}}, false},
		"its log is gone": {step, wire.Attachments{Retired: []wire.SignedRetired{
			{Peer: g.Peer, Incarnation: 1, Retired: wire.Retired{Old: g.Incarnation}},
		}}, true},
		"it says that its own log is gone": {step, wire.Attachments{Retired: []wire.SignedRetired{
			{Peer: g.Peer, Incarnation: g.Incarnation, Retired: wire.Retired{Old: g.Incarnation}},
		}}, false},
		"an order":                       {access(slot.Remove, 'G'), wire.Attachments{}, true},
		"an order about another one":     {access(slot.Remove, 'H'), wire.Attachments{}, false},
		"its readmission":                {access(slot.Readmit, 'G'), wire.Attachments{}, false},
		"a quorum does not hear it":      {step, wire.Attachments{Statements: state("ABCDE", "G", "")}, true},
		"it is mute":                     {step, wire.Attachments{Statements: state("ABCDE", "", "G")}, true},
		"some of both":                   {step, wire.Attachments{Statements: mixed}, true},
		"f state it (m10)":               {step, wire.Attachments{Statements: state("AB", "G", "")}, false},
		"one statement too few":          {step, wire.Attachments{Statements: state("ABCD", "G", "")}, false},
		"one of another life":            {step, wire.Attachments{Statements: again}, false},
		"statements about another one":   {step, wire.Attachments{Statements: state("ABCDE", "F", "F")}, false},
		"others than electors state it":  {step, wire.Attachments{Statements: state("ABCDHIJK", "G", "")}, false},
		"the leader alone (a2)":          {slot.Record{Members: before[:1]}, wire.Attachments{}, false},
		"another life in place of this":  {other, wire.Attachments{}, false},
		"the one of two that has proof":  {two, left, false},
		"two of them, each with its own": {two, both, true},
	} {
		err := checkDrops(chain.Rules{Byzantine: true}, before, before, c.r, c.a)
		if (err == nil) != c.want || err != nil && !errors.Is(err, chain.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// statement takes members for lost, at the position that a peer of the lab has open.
func statement(p *labPeer, names string) wire.Statement {
	next := p.m.chain.Next()
	s := wire.Statement{
		Position: wire.Position{Height: next.Height, Prev: next.Prev},
		Unheard:  slot.NewBitmap(len(p.m.chain.Tip().Members)), Mute: slot.NewBitmap(len(p.m.chain.Tip().Members)),
	}
	for _, n := range names {
		s.Unheard.Set(slot.Find(p.m.chain.Tip().Members, labID(string(n))))
	}
	return s
}

func TestOneStatementOfAnElectorCounts(t *testing.T) {
	l := byzantineLab(t, "ABCDE")
	a, b := l.peers[0], l.peers[1]
	d, _ := chain.FindMember(a.m.chain.Electorate(), l.peers[3].id, l.peers[3].inc)
	s := statement(a, "C")
	stranger := l.add("X")
	long := s
	long.Unheard = append(long.Unheard[:1:1], 0)
	older, elsewhere := s, s
	older.Position = wire.Position{Height: s.Height - 1, Prev: a.m.chain.Tip().Prev}
	elsewhere.Prev = slot.Root{1}
	beyond := s
	beyond.Unheard = slot.Bitmap{1 << 5}
	for name, c := range map[string]struct {
		by   *labPeer
		s    wire.Statement
		want error
	}{
		"a stranger's":       {stranger, s, ErrSender},
		"a longer set":       {b, long, chain.ErrInvalid},
		"a member too many":  {b, beyond, chain.ErrInvalid},
		"an older one (a20)": {b, older, ErrStale},
		"another branch's":   {b, elsewhere, ErrStale},
	} {
		if err := a.step(labSigned(c.by, c.s)); !errors.Is(err, c.want) || len(a.m.statements.held) > 0 {
			t.Errorf("%s: %v, %d are kept", name, err, len(a.m.statements.held))
		}
	}
	if err := a.step(labSigned(b, s)); err != nil {
		t.Fatal(err)
	}
	// none says all that the first did, and more
	for _, names := range []string{"C", "D", "", "E"} {
		if err := a.step(labSigned(b, statement(a, names))); !errors.Is(err, ErrStale) {
			t.Errorf("a second statement, about %q: %v", names, err)
		}
	}
	if err := a.step(labSigned(b, statement(a, "CD"))); err != nil || len(a.m.statements.held) != 1 {
		t.Errorf("one that says more: %v, %d are kept", err, len(a.m.statements.held))
	}
	for _, p := range l.peers[2:4] {
		if a.m.statements.stated(a.m.chain.Members(), d, false) {
			t.Error("fewer than a quorum's statements prove something")
		}
		_ = a.step(labSigned(p, statement(a, "D")))
	}
	_ = a.step(labSigned(a, statement(a, "D")))
	if !a.m.statements.stated(a.m.chain.Members(), d, false) {
		t.Error("statements of a quorum prove nothing")
	}
	if a.m.statements.mayDrop(d) {
		t.Error("a member that is heard is dropped on the word of others")
	}
}

// Only the key of a member says that its vote log is gone, in another incarnation.
func TestRetired(t *testing.T) {
	l := byzantineLab(t, "ABCD")
	a, b, d := l.peers[0], l.peers[1], l.peers[3]
	if a.m.open.leader(0).Peer == a.id { // it would draft what it proves at once
		a, b = b, a
	}
	m, _ := chain.FindMember(a.m.chain.Electorate(), d.id, d.inc)
	retired := wire.Retired{Old: d.inc}
	if err := a.step(labSigned(b, retired)); !errors.Is(err, ErrStale) || a.m.statements.mayDrop(m) {
		t.Errorf("B says it of D: %v", err)
	}
	if err := a.step(labSigned(d, retired)); !errors.Is(err, ErrSender) || a.m.statements.mayDrop(m) {
		t.Errorf("D says it of itself: %v", err)
	}
	d.crash()
	d.format()
	if err := a.step(labSigned(d, retired)); err != nil || !a.m.statements.mayDrop(m) {
		t.Errorf("D says it of its earlier life: %v", err)
	}
}

// A peer that lost its vote log says so by itself, but not while a process with its key is heard.
func TestRetires(t *testing.T) {
	l := byzantineLab(t, "ABCD")
	a, d := l.peers[0], l.peers[3]
	said := func() bool { return len(a.m.statements.retired) > 0 }
	twin := labSigned(d, wire.Alive{})
	l.filters = []*labFilter{{kind: "statement", left: -1}} // so that nobody drops D before
	d.crash()
	d.format()
	d.start()
	for range 10 {
		d.report(ReportClone{twin})
		if l.run(labTiming.Lost/2, said) {
			t.Fatal("a peer retires a process that lives")
		}
	}
	dropped := func() bool { return slot.Find(a.m.chain.Members(), d.id) < 0 }
	if !l.run(3*labTiming.Lost, said) || !l.run(labTiming.Lost, dropped) {
		t.Errorf("a peer that lost its vote log does not say so, or stays a member\n%s", l.show())
	}
}

// A peer that hears no quorum states nothing: it is the one that is cut off.
func TestWhoIsCutOffStatesNothing(t *testing.T) {
	l := byzantineLab(t, "ABCD")
	l.filters = []*labFilter{{to: "A", left: -1}}
	l.rests(3 * labTiming.Lost)
	a, b := l.peers[0].m.statements, l.peers[1].m.statements
	if a.own.Unheard != nil {
		t.Errorf("A states %v", a.own)
	}
	l.filters = []*labFilter{{from: "A", left: -1}, {to: "A", left: -1}}
	l.run(3*labTiming.Lost, func() bool { return b.own.Unheard != nil })
	if a.own.Unheard != nil || b.own.Unheard == nil || !b.own.Unheard.Has(0) || b.own.Unheard.Count() != 1 {
		t.Errorf("A states %v, B %v", a.own, b.own)
	}
}

// Three terms in a row that a member led with work owed, all of their time, without a record.
func TestLedTermsWithoutARecord(t *testing.T) {
	l := byzantineLab(t, "ABCD")
	m := l.peers[0].m
	tu, e := m.turnout, m.chain.Electorate()
	d := ofMember(e[3])
	ballot := uint32(0)
	term := func(owed bool, lasts time.Duration) {
		for _, leader := range []slot.Member{e[3], e[1]} {
			since := never
			if owed {
				since = tu.now - time.Hour
			}
			ref := m.chain.Next()
			ref.Ballot, ballot = ballot, ballot+1
			tu.watch(ref, leader, since, 100*time.Millisecond)
			tu.now += lasts
		}
	}
	term(true, 100*time.Millisecond)
	term(false, 100*time.Millisecond) // it owed nothing
	term(true, 50*time.Millisecond)
	term(true, 100*time.Millisecond)
	if _, fault := tu.fault(d); fault != "" {
		t.Fatalf("after two such terms it %s", fault)
	}
	led := tu.of[d].terms
	term(true, 100*time.Millisecond)
	if why, fault := tu.fault(d); led != 2 || why != ReasonNoRecord {
		t.Errorf("after %d such terms, and one more, it %q", led, fault)
	}
	b := tu.of[ofMember(e[1])]
	b.terms = muteTerms
	if _, fault := tu.fault(d); fault != "" {
		t.Errorf("where more leaders than a quorum can spare get nothing decided, D %s", fault)
	}
	b.terms = 0
	commit := wire.Commit{Record: stepRecord(m, "A")}
	tu.decided(commit, e, e[3], true)
	if _, fault := tu.fault(d); fault != "" {
		t.Errorf("after a record of its own it %s", fault)
	}
}

// A leader that drops a member cannot evict its key without evidence, nor take away its credit
// without LEAVE or RETIRED.
func TestDropsKeepCreditAndKey(t *testing.T) {
	l := byzantineLab(t, "ABCD")
	a, d := l.peers[0], l.peers[3]
	m, _ := chain.FindMember(a.m.chain.Members(), d.id, d.inc)
	left := wire.Attachments{Leaves: []wire.SignedLeave{
		{Peer: m.Peer, Incarnation: m.Incarnation, Leave: wire.Leave{Since: m.Since}},
	}}
	convicted := wire.Attachments{Evidence: []wire.Evidence{evidenceOf(
		wire.Message{From: m.Peer, Incarnation: m.Incarnation, Body: wire.Vote{Vote: slot.Vote{Hash: slot.Root{1}}}},
		wire.Message{From: m.Peer, Incarnation: m.Incarnation, Body: wire.Vote{Vote: slot.Vote{Hash: slot.Root{2}}}})}}
	var idle, unheard wire.Attachments
	for _, p := range l.peers[:3] {
		s := wire.SignedStatement{Peer: p.id, Incarnation: p.inc, Unheard: named(""), Mute: named("D")}
		idle.Statements = append(idle.Statements, s)
		s.Unheard, s.Mute = s.Mute, s.Unheard
		unheard.Statements = append(unheard.Statements, s)
	}
	fewer := wire.Attachments{Statements: idle.Statements[:2]}
	turnover := chain.Turnover{Listed: slices.DeleteFunc(slices.Clone(a.m.chain.Members()),
		func(e slot.Member) bool { return e == m })}
	deleted, evicted := turnover, turnover
	deleted.Deleted = func(e slot.Member) bool { return e.Peer == m.Peer }
	evicted.Evicted = []slot.PeerID{m.Peer}
	for name, c := range map[string]struct {
		t    chain.Turnover
		a    wire.Attachments
		want bool
	}{
		"absent":                     {turnover, wire.Attachments{}, true},
		"deleted without proof":      {deleted, wire.Attachments{}, false},
		"deleted as it left":         {deleted, left, true},
		"absent though it left":      {turnover, left, false},
		"deleted as it is idle":      {deleted, idle, true},
		"absent though it is idle":   {turnover, idle, false},
		"deleted as it is not heard": {deleted, unheard, false},
		"absent as it is not heard":  {turnover, unheard, true},
		"deleted by fewer":           {deleted, fewer, false},
		"evicted without evidence":   {evicted, wire.Attachments{}, false},
		"evicted because it left":    {evicted, left, false},
		"evicted for what it signed": {evicted, convicted, true},
	} {
		r := a.m.chain.Settle(slot.Record{Kind: slot.Members}, c.t)
		if err := checkEntries(a.m.chain, r, c.a); (err == nil) != c.want {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// An elector that leads in vain is put out, and earns its vote anew: nobody lists it for the time
// of three slots, and of six when that happens again, and it has no credit.
func TestWhoLeadsInVainEarnsItsVoteAgain(t *testing.T) {
	l := labOf(t, "ABCD", func(r *chain.Rules) { r.Byzantine, r.StartPeers = true, 4 })
	l.filters = []*labFilter{{from: "D", kind: "plan,draft,propose", left: -1}}
	train(true, l.peers...)
	a, d := l.peers[0], l.peers[3]
	listed := func() bool { return slot.Find(a.m.chain.Members(), d.id) >= 0 }
	for _, slots := range []time.Duration{3, 6} {
		l.within(t, 20*time.Minute, "D is put out", func() bool { return !listed() })
		if slot.Find(a.m.chain.Tip().Absent, d.id) >= 0 {
			t.Fatal("it keeps its credit")
		}
		out, rests := l.now, slots*a.m.history.slotTook
		l.within(t, 20*time.Minute, "D is listed again", listed)
		m, _ := chain.FindMember(a.m.chain.Members(), d.id, d.inc)
		if l.now-out < rests || m.Credit > 0 || m.Elects() {
			t.Errorf("D is listed again after %v, want %v: %+v", l.now-out, rests, m)
		}
		l.within(t, time.Hour, "it has a vote", func() bool {
			m, _ := chain.FindMember(a.m.chain.Members(), d.id, d.inc)
			if m.Elects() && m.Credit < 32 {
				t.Fatalf("it has a vote for %d contributions", m.Credit/8)
			}
			return m.Elects()
		})
	}
}
