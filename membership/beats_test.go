package membership

import (
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// A leader plans nothing, and sends BEATs whose counters rise for ever. The others believe them for
// a while only, and decide the slot without it. It keeps its place: it is heard.
func TestBeatsAreNotBelievedForEver(t *testing.T) {
	ledByTalker(t, func(open slot.Ref, n byte) wire.Body {
		return wire.Beat{Ref: open, Revision: 1, Offers: 3, Bytes: uint64(n)}
	})
}

// ledByTalker has the leader of a slot say something to the others for ever, and do nothing else.
// They decide the slot.
func ledByTalker(t *testing.T, says func(open slot.Ref, n byte) wire.Body) (l *lab, others []*labPeer) {
	t.Helper()
	l = labOf(t, "ABCD")
	leader := l.leader()
	others = l.others(leader)
	open := leader.m.open.ref
	l.filters = []*labFilter{{from: leader.name, left: -1}}
	train(true, others...)
	n, began := byte(0), l.now
	decided := func() bool { return others[0].m.chain.LastStep() > 0 }
	for !decided() && l.now-began < 40*time.Second {
		n++
		for _, p := range others {
			_ = p.step(labSigned(leader, says(open, n)))
		}
		l.run(200*time.Millisecond, decided)
	}
	if !decided() || l.now-began > 20*l.timing.Patience {
		t.Fatalf("no slot after %v\n%s", l.now-began, l.show())
	}
	return l, others
}

// TestTermsAreMeasured: where members may lie, a leader has three times what steps usually took
// here, twice as much in each further term, at least the preset's time and at most the run's
// term_cap. Its BEATs and bytes change nothing. A record without a step has Timing.Patience.
func TestTermsAreMeasured(t *testing.T) {
	for _, c := range []struct {
		took      time.Duration // each of the newest steps
		term      uint32
		cap, want time.Duration
		members   bool // no step is owed
	}{
		{took: 0, want: 4 * time.Second},
		{took: time.Second, want: 4 * time.Second},
		{took: 10 * time.Second, want: 30 * time.Second},
		{took: 10 * time.Second, term: 3, want: 8 * 30 * time.Second},
		{took: 10 * time.Second, term: 3, cap: time.Minute, want: time.Minute},
		{took: 10 * time.Second, term: 1 << 20, cap: time.Hour, want: 64 * 30 * time.Second},
		{took: time.Hour, term: 20, cap: time.Hour, want: time.Hour},
		{took: time.Hour, term: 1 << 20, want: 64 * 3 * time.Hour},
		{took: 10 * time.Second, members: true, want: time.Second},
		{took: 10 * time.Second, term: 2, members: true, want: 4 * time.Second},
	} {
		l := forkingLab(t, 4, 0)
		m := l.peers[0].m
		m.cfg.Rules.TermCap, m.history.steps = c.cap, [usualSteps]time.Duration{}
		for i := range m.history.steps {
			m.history.steps[i] = c.took
		}
		m.open.plan, m.open.ballot = nil, c.term*slot.Tries
		if !c.members {
			m.open.plan = &slot.Plan{}
		}
		if got := m.pacemaker.length(); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
		since := m.now
		m.open.owed, m.open.began = since, since
		for _, after := range []time.Duration{c.want - 1, c.want} {
			m.now = since + after
			m.acceptor.sawLife(1) // it counts in trust crash only
			if over := m.pacemaker.expired(); over != (after >= c.want) {
				t.Errorf("%+v: over after %v: %v", c, after, over)
			}
		}
	}
}

// TestALiarsSlotsDoNotLengthenTerms: the time that a step usually takes is a median. Up to four of
// nine steps that a liar has drawn out leave it.
func TestALiarsSlotsDoNotLengthenTerms(t *testing.T) {
	hi := &history{facts: &facts{}, height: &height{open: &openHeight{}}}
	for i := range time.Duration(usualSteps) {
		hi.open.owed, hi.now = 0, time.Second
		if i%2 == 1 {
			hi.now = time.Hour
		}
		hi.noteStep()
	}
	if got := hi.usualStep(); got != time.Second {
		t.Errorf("a step usually takes %v", got)
	}
	hi.open.owed = never // caught up with: nobody saw it owed
	hi.now = time.Hour
	if hi.noteStep(); hi.usualStep() != time.Second || hi.steps[0] != time.Second {
		t.Errorf("a step that was not seen counts: %v", hi.steps)
	}
}

// TestReductionsLongerThanATerm: where a reduction takes a little longer than the least term, the
// next leader goes on with the group. All are honest, and stay electors.
func TestReductionsLongerThanATerm(t *testing.T) {
	for _, took := range []time.Duration{4300 * time.Millisecond, 5 * time.Second} {
		rules := labRules()
		rules.StartPeers, rules.MaxStaleness, rules.Byzantine = 4, 1, true
		l := newLab(t, rules, labTiming)
		for _, n := range "ABCD" {
			l.add(string(n))
		}
		l.connect()
		l.until(t, 12, l.peers...)
		l.reducing = took
		l.run(200*time.Second, func() bool { return false })
		m := l.peers[0].m
		if n := len(m.chain.Electorate()); n != 4 || m.history.usualStep() < took {
			t.Errorf("%v: %d electors are left, and a step is said to take %v", took, n, m.history.usualStep())
		}
		if l.tells("terms in a row without a record") {
			t.Errorf("%v: an honest elector is said to lead in vain", took)
		}
	}
}

// TestLostTermsDoNotLengthenTerms: a step that a third term got decided, with a group of its own,
// took what it took in that term. A group that an earlier term opened counts from its beginning.
func TestLostTermsDoNotLengthenTerms(t *testing.T) {
	d := &openHeight{}
	d.ballot, d.owed, d.began = 2*slot.Tries+1, 0, 59*time.Second
	d.last = &slot.Plan{}
	d.last.Opened.Ballot = d.ballot
	hi := &history{facts: &facts{}, height: &height{open: d}}
	hi.now = time.Minute
	if hi.noteStep(); hi.usualStep() != time.Second {
		t.Errorf("the step took %v", hi.usualStep())
	}
	d.last.Opened.Ballot = 0
	if hi.noteStep(); hi.steps[0] != time.Minute {
		t.Errorf("the step took %v, with a group of the first term", hi.steps[0])
	}
}
