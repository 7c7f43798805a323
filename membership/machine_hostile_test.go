package membership

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// hostileLab is a lab with members a, b, c … in a chain, and a way to say anything under any name.
func hostileLab(t *testing.T, members string) (*lab, func(to *labPeer, name string, inc slot.Incarnation, body Body) error) {
	l := newLab(t, labRules(), labTiming)
	for _, n := range members {
		l.add(string(n))
	}
	if !l.run(time.Minute, func() bool {
		return !slices.ContainsFunc(l.peers, func(p *labPeer) bool { return len(p.m.chain.electorate()) != len(members) })
	}) {
		t.Fatal("no run came about")
	}
	say := func(to *labPeer, name string, inc slot.Incarnation, body Body) error {
		return to.step(Message{From: labID(name), Incarnation: inc, Body: body})
	}
	return l, say
}

// One stranger with many incarnations must not push other strangers, those who join, out of memory.
func TestOneStrangerTakesOneOfTheStrangersPlaces(t *testing.T) {
	l, say := hostileLab(t, "ab")
	a := l.peers[0]
	tip := a.m.chain
	honest := Alive{Branch: tip.founding(), Height: tip.height(), Tip: tip.tipHash(), Synced: true}
	_ = say(a, "honest", 1, honest)
	_ = say(a, "honest", 1, Join{})
	for i := range slot.Incarnation(200) {
		_ = say(a, "stranger", i, Alive{})
	}
	if a.m.presence.known[who{labID("honest"), 1}] == nil {
		t.Error("a joiner was pushed out by one stranger")
	}
	n := 0
	for w := range a.m.presence.known {
		if w.peer == labID("stranger") {
			n++
		}
	}
	if n > 1 {
		t.Errorf("one stranger is known %d times", n)
	}
}

// Strangers that say they hold everything must not keep members out of the list of those who are asked.
func TestMembersAreAmongTheSources(t *testing.T) {
	l, say := hostileLab(t, "xyz")
	x := l.peers[0]
	for i := range 40 {
		tip := x.m.chain
		_ = say(x, fmt.Sprintf("a%02d", i), 1, Alive{
			Branch: tip.branch, Height: tip.height(), Tip: tip.tipHash(), Synced: true, Applied: tip.height(),
		})
	}
	if from := x.m.sources(x.m.appliedBy(0)); !slices.Contains(from, labID("y")) || !slices.Contains(from, labID("z")) {
		t.Errorf("fetches from %s", labNames(from))
	}
}

// A stranger that claims a height must not use up every question of a peer that is behind.
func TestALiarDoesNotKeepALaggardBehind(t *testing.T) {
	m := NewMachine(Config{Self: labID("c"), Incarnation: 1, Rules: labRules(), Timing: labTiming, Plan: labPlanner, Verify: labVerify},
		Saved{Incarnation: 1})
	asked := map[slot.PeerID]int{}
	now := time.Duration(0)
	step := func(name string, a Alive) {
		_ = m.Step(now, Message{From: labID(name), Incarnation: 1, Body: a})
	}
	for ; now < time.Minute; now += time.Millisecond {
		step("liar", Alive{Branch: slot.Root{1}, Height: 1 << 40, Work: 1})
		if now%labTiming.Alive == 7*time.Millisecond {
			step("honest", Alive{Branch: slot.Root{1}, Height: 9, Work: 1})
		}
		if now%(labTiming.Beat/2) == 0 {
			m.Tick(now)
		}
		for _, e := range m.Ready().Send {
			if _, ok := e.Body.(Need); ok {
				asked[e.To[0]]++
			}
		}
	}
	if asked[labID("honest")] < 10 {
		t.Errorf("in a minute it asked %v", asked)
	}
}

// No ballot that a member names may use up the numbers above it.
func TestABallotCannotBeJumpedTo(t *testing.T) {
	l, say := hostileLab(t, "abc")
	a, c := l.peers[0], l.peers[2]
	high := uint32(math.MaxUint32)
	for ofMember(a.m.open.leader(high)) != (who{c.id, c.inc}) {
		high--
	}
	l.at(l.now, func() {})
	ref := a.m.open.at(high)
	err := say(a, "c", c.inc, Beat{Ref: ref})
	t.Log(a.m.open.ballot, high, err)
	if a.m.open.ballot == high {
		t.Errorf("follows ballot %d (%v): nobody else leads at this height any more", high, err)
	}
	err = say(a, "c", c.inc, Prepare{ref})
	if a.m.open.seen == high || a.m.open.word.floor() == high {
		t.Errorf("seen %d, floor %d (%v)", a.m.open.seen, a.m.open.word.floor(), err)
	}
}

// A stranger that is lower than a founder and speaks under many incarnations must not hold up the founding.
func TestAStrangerDoesNotHoldUpTheFounding(t *testing.T) {
	for name, alive := range map[string]Alive{"of many incarnations": {}, "that claims a chain": {Branch: slot.Root{1}, Height: 5, Work: 9}} {
		l := newLab(t, labRules(), labTiming)
		p := l.add("m")
		inc := slot.Incarnation(0)
		founded := l.run(0, func() bool { return false })
		for range 1200 {
			if name == "of many incarnations" {
				inc = (inc + 1) % 60
			}
			_ = p.step(Message{From: labID("a"), Incarnation: inc, Body: alive})
			founded = l.run(50*time.Millisecond, func() bool { return p.m.chain.height() > 0 })
			if founded {
				break
			}
		}
		if !founded {
			t.Errorf("a stranger %s held up the founding for a minute (window %s)", name, labTiming.FoundAfter)
		}
	}
}

// One member that accuses all others must not reduce alone.
func TestAnAccuserDoesNotReduceAlone(t *testing.T) {
	l, say := hostileLab(t, "abcde")
	var leader *labPeer
	ok := l.run(time.Minute, func() bool {
		for _, p := range l.peers {
			if p.m.open.lead != nil && p.m.open.lead.plan != nil && len(p.m.open.lead.plan.Offers) == 5 {
				leader = p
			}
		}
		return leader != nil
	})
	if !ok {
		t.Fatal("no plan of five")
	}
	bad := l.peers[0]
	if bad == leader {
		bad = l.peers[1]
	}
	for _, p := range l.peers {
		if pl := leader.m.open.lead.plan; p != bad && pl != nil {
			_ = say(leader, bad.name, bad.inc, Lost{Ref: pl.Ref, Group: pl.Group(), Peer: p.id, Reason: LostBadBytes})
		}
	}
	height := leader.m.chain.height()
	l.run(3*time.Second, func() bool { return leader.m.chain.height() > height })
	if n := len(leader.m.chain.at(height + 1).Contributions); n < 4 {
		t.Errorf("after one member's word %d of 5 contribute", n)
	}
}

// One member's reports about another, for whatever reasons it makes up, take up no more room than the reasons there are.
func TestReportsAreBounded(t *testing.T) {
	l, say := hostileLab(t, "abcd")
	for _, p := range l.peers {
		p.stuck = true // the plan stays
	}
	var leader *labPeer
	if !l.run(time.Minute, func() bool {
		i := slices.IndexFunc(l.peers, func(p *labPeer) bool { return p.m.open.lead != nil && p.m.open.lead.plan != nil })
		if i >= 0 {
			leader = l.peers[i]
		}
		return i >= 0
	}) {
		t.Fatal("no plan")
	}
	i := slices.IndexFunc(l.peers, func(p *labPeer) bool { return p != leader })
	bad, plan := l.peers[i], leader.m.open.lead.plan
	for reason := range 256 {
		_ = say(leader, bad.name, bad.inc, Lost{Ref: plan.Ref, Group: plan.Group(), Peer: leader.id, Reason: LostReason(reason)})
	}
	if n := len(leader.m.open.lead.reports); n != int(LostOutcome) {
		t.Errorf("%d reports are kept, for %d reasons", n, LostOutcome)
	}
}

// What a member sends for heights to come must not take the place of what others said of the next one, nor much memory.
func TestEarlyMessagesAreBoundedBySender(t *testing.T) {
	l, say := hostileLab(t, "abc")
	a, b, c := l.peers[0], l.peers[1], l.peers[2]
	next := a.m.chain.next()
	_ = say(a, "b", b.inc, Have{Ref: slot.Ref{Height: next.Height + 1}})
	for range 2 * maxEarly {
		_ = say(a, "c", c.inc, Have{Ref: slot.Ref{Height: next.Height + 1}})
	}
	if !slices.ContainsFunc(a.m.early, func(m Message) bool { return m.From == b.id }) {
		t.Error("one member pushed out what another said")
	}
	_ = say(a, "c", c.inc, Have{Ref: slot.Ref{Height: next.Height + 1000}})
	if m := a.m.early[len(a.m.early)-1]; m.Body.(Have).Height > next.Height+1 {
		t.Error("a message for a height far off is kept")
	}
}

// A stranger's claim of a better chain that it does not show must not keep this peer from looking at another's.
func TestAnEmptyClaimDoesNotBlockOtherRivals(t *testing.T) {
	l, say := hostileLab(t, "a")
	a := l.peers[0]
	claim := func(b byte) Alive { return Alive{Branch: slot.Root{b}, Height: 3, Work: math.MaxUint64} }
	_ = say(a, "liar", 1, claim(1))
	met := false
	for range 1200 {
		_ = say(a, "liar", 1, claim(1)) // the liar is always first
		l.run(50*time.Millisecond, func() bool { return false })
		_ = say(a, "liar", 1, claim(1))
		_ = say(a, "honest", 1, claim(2))
		met = met || a.m.rival != nil && a.m.rival.claim.Branch == slot.Root{2}
	}
	if !met {
		t.Error("in a minute the other was never looked at")
	}
}

// A newcomer that never says HAVE holds up one step, by a Beat, and not every step; a change of incarnation does not help it.
func TestASilentNewcomerIsAwaitedOnce(t *testing.T) {
	l := labOf(t, "AB")
	m := l.peer(labName(l.peers[0].m.open.leader(0).Peer)).m
	tip := m.chain.tip()
	draft := func(kind slot.Kind) {
		lead := m.open.lead
		lead.draft, lead.draftAt, lead.haves = &slot.Draft{Kind: kind}, m.now, map[who]bool{}
	}
	claim := func(inc slot.Incarnation) {
		a := m.presence.meet(who{labID("Z"), inc}, m.now, tip.Members, m.chain.credit)
		a.joinHeard, a.alive = m.now, &Alive{Synced: true, Tip: m.chain.tipHash(), Height: tip.Height, Applied: tip.Height}
	}
	expect := func(when string, want bool) {
		t.Helper()
		if m.awaitsNewcomer() != want {
			t.Errorf("%s: awaited %v", when, !want)
		}
	}
	claim(1)
	draft(slot.Step)
	expect("its first step", true)
	m.now += m.cfg.Timing.Beat
	expect("a Beat later", false)
	draft(slot.Step)
	expect("the next step", false)
	claim(2)
	expect("in another incarnation", false)
	draft(slot.Members)
	expect("a members record", true)
	m.now += m.cfg.Timing.Beat
	expect("a Beat later", false)
	m.now += m.cfg.Timing.Lost
	claim(2)
	draft(slot.Step)
	expect("a step after Lost", true)
}
