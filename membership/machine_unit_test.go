package membership

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

func members(spec ...any) []slot.Member { // name, since, name, since, …
	var ms []slot.Member
	for i := 0; i < len(spec); i += 2 {
		ms = append(ms, slot.Member{Peer: labID(spec[i].(string)), Incarnation: 1, Since: uint64(spec[i+1].(int))})
	}
	return ms
}

func TestQuorum(t *testing.T) {
	for _, c := range []struct {
		name    string
		members []slot.Member
		in      string
		want    bool
	}{
		{"nobody of none", nil, "", false},
		{"one of one", members("A", 1), "A", true},
		{"nobody of one", members("A", 1), "", false},
		{"the senior of two", members("A", 2, "B", 1), "B", true},
		{"the junior of two, lower ID", members("A", 2, "B", 1), "A", false}, // H14
		{"equal since: the lower ID", members("A", 1, "B", 1), "A", true},
		{"two of three", members("A", 1, "B", 1, "C", 1), "BC", true},
		{"one of three", members("A", 1, "B", 1, "C", 1), "A", false},
		{"half of four with the senior", members("A", 3, "B", 2, "C", 1, "D", 3), "CD", true},
		{"half of four without", members("A", 3, "B", 2, "C", 1, "D", 3), "AB", false},
	} {
		got := slot.Quorum(c.members, func(m slot.Member) bool { return slices.Contains([]byte(c.in), labName(m.Peer)[0]) })
		if got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

func TestGrowth(t *testing.T) {
	old := members("A", 1, "B", 2)
	for _, c := range []struct {
		next []slot.Member
		want bool
	}{
		{members("A", 1), true},
		{members("B", 2), true},
		{members("A", 1, "B", 2, "C", 5), true},
		{members("A", 1, "B", 2, "C", 5, "D", 5), true}, // doubled
		{members("A", 1, "B", 2, "C", 5, "D", 5, "E", 5), false},
		{members("A", 1, "C", 5), true},
		{members("B", 2, "C", 5, "D", 5), false},
		{members("C", 5), false},
	} {
		if got := grows(old, c.next); got != c.want {
			t.Errorf("%v -> %v: %v", peersOf(old), peersOf(c.next), got)
		}
	}
	again := members("A", 1, "B", 5)
	again[1].Incarnation = 2
	if !grows(old, again) || grows(old, again[1:]) {
		t.Error("a peer in another incarnation counts as a newcomer")
	}
}

func TestLeaderOrder(t *testing.T) {
	ms := members("A", 1, "B", 1, "C", 1, "D", 1)
	first := map[slot.PeerID]int{}
	for i := range 400 {
		prev := slot.Hash(fmt.Append(nil, i))
		order := slot.LeaderOrder(prev, ms)
		if !slices.Equal(order, slot.LeaderOrder(prev, ms)) || len(union(peersOf(order))) != len(ms) {
			t.Fatal("not an order of the members")
		}
		first[order[0].Peer]++
		d := &decree{ref: slot.Ref{Height: 2, Prev: prev}, order: order}
		if d.leader(6) != order[2] {
			t.Fatal("ballot 6 of 4 is led by place 2")
		}
	}
	for p, n := range first {
		if n < 60 || n > 140 {
			t.Errorf("%s leads ballot 0 of %d heights in 400", p, n)
		}
	}
}

// labOf founds a run of peers without training.
func labOf(t *testing.T, names string) *lab {
	l := newLab(t, labRules(), labTiming)
	for _, n := range names {
		l.add(string(n)).trains = false
	}
	l.connect()
	done := func() bool { return len(l.peers[0].m.View().Tip.Members) == len(names) }
	if !l.run(time.Minute, done) {
		t.Fatal(l.show())
	}
	l.run(2*time.Second, func() bool { return false })
	return l
}

// stepRecord is a valid next record with a contribution of each name.
func stepRecord(m *Machine, names string) slot.Record {
	c := m.chain
	r := slot.Record{
		Run: c.rules.Run, Height: c.height() + 1, Kind: slot.Step, Prev: c.tipHash(), Slot: c.openSlot(), StateRoot: m.state.root,
		Members: c.electorate(),
	}
	all := slot.NewBitmap(len(names))
	for i, n := range names {
		all.Set(i)
		r.Contributions = append(r.Contributions, slot.Offer{
			Peer: labID(string(n)), Slot: r.Slot, Seq: c.spent[labID(string(n))].seq + 1, Base: r.Slot - 1, Weight: 7,
		})
	}
	r.Segments = []slot.Segment{
		{Range: slot.Range{End: 10}, Contributors: all, Root: slot.Hash([]byte("a"))},
		{Range: slot.Range{Begin: 10, End: labElements}, Contributors: all, Root: slot.Hash([]byte("b"))},
	}
	r.Work = c.tip().Work + 7*uint64(len(names))
	return r
}

func TestCheckRecord(t *testing.T) {
	m := labOf(t, "ABC").peer("A").m
	if err := m.chain.check(stepRecord(m, "AB")); err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func(*slot.Record){
		"run":                  func(r *slot.Record) { r.Run[0]++ },
		"height":               func(r *slot.Record) { r.Height++ },
		"prev":                 func(r *slot.Record) { r.Prev[0]++ },
		"slot":                 func(r *slot.Record) { r.Slot++ },
		"kind":                 func(r *slot.Record) { r.Kind = slot.Members },
		"fork":                 func(r *slot.Record) { r.Kind = slot.Fork },
		"work":                 func(r *slot.Record) { r.Work++ },
		"fragment":             func(r *slot.Record) { r.Fragment = 1 },
		"nobody":               func(r *slot.Record) { r.Members = nil },
		"since":                func(r *slot.Record) { r.Members[1].Since++ },
		"order":                func(r *slot.Record) { slices.Reverse(r.Members) },
		"another incarnation":  func(r *slot.Record) { r.Members[1].Incarnation++ },
		"growth":               func(r *slot.Record) { r.Members = members("X", 4, "Y", 4) },
		"no contributions":     func(r *slot.Record) { r.Contributions = nil },
		"a stranger":           func(r *slot.Record) { r.Contributions[1].Peer = labID("Z") },
		"unsorted":             func(r *slot.Record) { slices.Reverse(r.Contributions) },
		"stale":                func(r *slot.Record) { r.Slot, r.Contributions[0].Base = 1, math.MaxUint64 },
		"of another slot":      func(r *slot.Record) { r.Contributions[0].Slot++ },
		"sequence zero":        func(r *slot.Record) { r.Contributions[0].Seq = 0 },
		"weight above the cap": func(r *slot.Record) { r.Contributions[0].Weight = 101 },
		"weightless":           func(r *slot.Record) { r.Contributions[0].Weight = 0; r.Work -= 7 },
		"no segments":          func(r *slot.Record) { r.Segments = nil },
		"a gap":                func(r *slot.Record) { r.Segments[1].Range.Begin++ },
		"empty segment":        func(r *slot.Record) { r.Segments[0].Range.End, r.Segments[1].Range.Begin = 0, 0 },
		"too short":            func(r *slot.Record) { r.Segments[1].Range.End-- },
		"nobody in a segment":  func(r *slot.Record) { r.Segments[1].Contributors = slot.NewBitmap(2) },
		"bitmap beyond":        func(r *slot.Record) { r.Segments[1].Contributors = slot.Bitmap{7} },
		"bitmap too long":      func(r *slot.Record) { r.Segments[1].Contributors = slot.Bitmap{3, 0} },
		"a contributor nowhere": func(r *slot.Record) {
			r.Segments[0].Contributors, r.Segments[1].Contributors = slot.Bitmap{1}, slot.Bitmap{1}
		},
	} {
		r := stepRecord(m, "AB")
		r.Members = slices.Clone(r.Members)
		spoil(&r)
		if err := m.chain.check(r); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestSpentOffers(t *testing.T) {
	m := labOf(t, "ABC").peer("A").m
	m.chain.rules.MaxStaleness = 2
	r := stepRecord(m, "AB")
	m.chain.push(Commit{Record: r})
	again := r.Contributions[0]
	again.Slot++
	if m.chain.checkOffer(again) == nil {
		t.Error("a sequence number was spent twice")
	}
	again.Seq++
	if err := m.chain.checkOffer(again); err != nil {
		t.Error(err)
	}
}

func TestPatienceDoubles(t *testing.T) {
	m := &Machine{cfg: Config{Timing: Timing{Patience: 3 * time.Second}}}
	for b, want := range map[uint32]time.Duration{0: 3, 1: 6, 4: 48, 5: 96, 6: 96, math.MaxUint32: 96} {
		if got := m.patience(b); got != want*time.Second {
			t.Errorf("ballot %d: %v", b, got)
		}
	}
}

// TestCover: of failed connections as few peers are left out as explain them all.
func TestCover(t *testing.T) {
	r := func(pairs ...string) (rs []report) {
		for _, p := range pairs {
			rs = append(rs, report{labID(p[:1]), labID(p[1:])})
		}
		return rs
	}
	m := labOf(t, "ABCD").peer("A").m
	for _, c := range []struct {
		reports []report
		want    string
	}{
		{r("AD", "BD", "CD"), "D"},        // all lost D
		{r("DA", "DB", "DC"), "D"},        // D lost all: the accuser
		{r("BC"), "C"},                    // one word against another: the accused
		{r("CB"), "B"},                    //
		{r("BC", "CB"), "C"},              // each other: the higher ID
		{r("AB", "AC", "DB", "DC"), "CB"}, // two are needed
	} {
		if got := labNames(m.cover(c.reports)); got != c.want {
			t.Errorf("%v: %s left out, not %s", c.reports, got, c.want)
		}
	}
	// B, whom fewer members reach, is left out although C is the accused.
	for _, a := range m.presence.known {
		if a.alive != nil {
			a.alive = &Alive{Reaches: without(a.alive.Reaches, labID("B"))}
		}
	}
	if got := labNames(m.cover(r("BC"))); got != "B" {
		t.Errorf("%s left out", got)
	}
}

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
	msg := Message{From: labID("B"), Incarnation: l.peer("B").inc, Body: Prepare{slot.Ref{Height: 99, Ballot: 1}}}
	for range 10 * maxEarly {
		if err := m.Step(l.now, msg); err != nil {
			t.Fatal(err)
		}
	}
	if len(m.early) != maxEarly {
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
		"a fork of another":          {other, ForkVote{}, ErrSender},
		"a commit of another run":    {other, Commit{}, ErrInvalid},
		"an unproven commit":         {other, Commit{Record: stepRecord(p.m, "AB")}, ErrInvalid},
		"an ALIVE ahead of itself":   {other, Alive{Applied: 3, Founding: slot.Root{1}}, ErrInvalid},
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

// TestHeldFounding: a node that waits for its bootstrap peers does not found; an observer never does.
func TestHeldFounding(t *testing.T) {
	l := newLab(t, labRules(), labTiming)
	p := l.add("A")
	p.report(ReportFounding{Hold: true})
	l.run(time.Minute, func() bool { return false })
	if p.m.chain.height() != 0 {
		t.Error("it founded")
	}
	p.report(ReportFounding{})
	l.run(time.Minute, func() bool { return false })
	if p.m.chain.height() == 0 {
		t.Error("it did not found")
	}
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
		m.spreads = [spreadsKept]time.Duration{c.spread * time.Second}
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
