package membership

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/chain"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// hostileLab is a lab with members a, b, c … in a chain, and a way to say anything under any name.
func hostileLab(t *testing.T, members string) (*lab,
	func(to *labPeer, name string, inc slot.Incarnation, body wire.Body) error,
) {
	l := newLab(t, labRules(), labTiming)
	for _, n := range members {
		l.add(string(n))
	}
	l.awaits(t, "a run comes about", func() bool {
		return !slices.ContainsFunc(l.peers, func(p *labPeer) bool {
			return len(p.m.chain.Electorate()) != len(members)
		})
	})
	say := func(to *labPeer, name string, inc slot.Incarnation, body wire.Body) error {
		return to.step(wire.Message{From: labID(name), Incarnation: inc, Body: body})
	}
	return l, say
}

// synced is what a peer says that has all of a chain.
func synced(c *chain.Chain) wire.Alive {
	return wire.Alive{
		Branch: c.Branch(), Height: c.Height(), Tip: c.TipHash(), Synced: true, Applied: c.Height(),
	}
}

// One stranger with many incarnations must not push other strangers, those that join, out of
// memory.
func TestOneStrangerTakesOneOfTheStrangersPlaces(t *testing.T) {
	l, say := hostileLab(t, "ab")
	a := l.peers[0]
	tip := a.m.chain
	honest := wire.Alive{Branch: tip.Founding(), Height: tip.Height(), Tip: tip.TipHash(), Synced: true}
	_ = say(a, "honest", 1, honest)
	_ = say(a, "honest", 1, wire.Join{})
	for i := range slot.Incarnation(200) {
		_ = say(a, "stranger", i, wire.Alive{})
	}
	if a.m.presence.known[memberKey{labID("honest"), 1}] == nil {
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

// Strangers that say they hold everything must not keep members out of the list of those who are
// asked.
func TestMembersAreAmongTheSources(t *testing.T) {
	l, say := hostileLab(t, "xyz")
	x := l.peers[0]
	for i := range 40 {
		_ = say(x, fmt.Sprintf("a%02d", i), 1, synced(x.m.chain))
	}
	if from := x.m.presence.sources(x.m.presence.appliedBy(0)...); !slices.Contains(from, labID("y")) ||
		!slices.Contains(from, labID("z")) {
		t.Errorf("fetches from %s", labNames(from))
	}
}

// A stranger that claims a height must not use up every question of a peer that is behind.
func TestALiarDoesNotKeepALaggardBehind(t *testing.T) {
	m := machineOn(Config{
		Self: labID("c"), Incarnation: 1, Rules: labRules(), Timing: labTiming, Plan: labPlanner,
		Verify: labVerify,
	},
		wire.Saved{Incarnation: 1}, nil)
	asked := map[slot.PeerID]int{}
	now := time.Duration(0)
	step := func(name string, a wire.Alive) {
		_ = m.Step(now, wire.Message{From: labID(name), Incarnation: 1, Body: a})
	}
	for ; now < time.Minute; now += time.Millisecond {
		step("liar", wire.Alive{Branch: slot.Root{1}, Height: 1 << 40, Work: 1})
		if now%labTiming.Alive == 7*time.Millisecond {
			step("honest", wire.Alive{Branch: slot.Root{1}, Height: 9, Work: 1})
		}
		if now%(labTiming.Beat/2) == 0 {
			m.Tick(now)
		}
		for _, e := range m.Ready().Send {
			if _, ok := e.Body.(wire.Need); ok {
				asked[e.To[0]]++
			}
		}
	}
	if asked[labID("honest")] < 10 {
		t.Errorf("in a minute it asked %v", asked)
	}
}

// A stranger that is lower than a founder and speaks under many incarnations must not hold up the
// founding.
func TestAStrangerDoesNotHoldUpTheFounding(t *testing.T) {
	for name, alive := range map[string]wire.Alive{
		"of many incarnations": {},
		"that claims a chain":  {Branch: slot.Root{1}, Height: 5, Work: 9},
	} {
		l := newLab(t, labRules(), labTiming)
		p := l.add("m")
		inc := slot.Incarnation(0)
		founded := false
		for range 1200 {
			if name == "of many incarnations" {
				inc = (inc + 1) % 60
			}
			_ = p.step(wire.Message{From: labID("a"), Incarnation: inc, Body: alive})
			founded = l.run(50*time.Millisecond, func() bool { return p.m.chain.Height() > 0 })
			if founded {
				break
			}
		}
		if !founded {
			t.Errorf("a stranger %s held up the founding for a minute (window %s)", name, labTiming.FoundAfter)
		}
	}
}

// One member's reports about another, for whatever reasons it makes up, take up no more room than
// the reasons there are.
func TestReportsAreBounded(t *testing.T) {
	l, say := hostileLab(t, "abcd")
	for _, p := range l.peers {
		p.stuck = true // the plan stays
	}
	leader := l.leading(t, func(_ *labPeer, lead *leading) bool { return lead.plan != nil })
	bad, plan := l.others(leader)[0], leader.m.open.lead.plan
	for reason := range 256 {
		_ = say(leader, bad.name, bad.inc, wire.Lost{
			Ref: plan.Ref, Group: plan.Group(), Peer: leader.id,
			Reason: wire.LostReason(reason),
		})
	}
	if n := len(leader.m.open.lead.reports); n != int(wire.LostOutcome) {
		t.Errorf("%d reports are kept, for %d reasons", n, wire.LostOutcome)
	}
}

// A stranger's claim of a better chain that it does not show must not keep this peer from looking
// at another's.
func TestAnEmptyClaimDoesNotBlockOtherBranches(t *testing.T) {
	l, say := hostileLab(t, "a")
	a := l.peers[0]
	claim := func(b byte) wire.Alive { return wire.Alive{Branch: slot.Root{b}, Height: 3, Work: math.MaxUint64} }
	_ = say(a, "liar", 1, claim(1))
	met := false
	for range 1200 {
		_ = say(a, "liar", 1, claim(1)) // the liar is always first
		l.rests(50 * time.Millisecond)
		_ = say(a, "liar", 1, claim(1))
		_ = say(a, "honest", 1, claim(2))
		met = met || a.m.competing.gathering != nil && a.m.competing.gathering.claim.Branch == slot.Root{2}
	}
	if !met {
		t.Error("in a minute the other was never looked at")
	}
}

// A newcomer that never says HAVE holds up one step, by a Beat, and not every step; a change of
// incarnation does not help it.
func TestASilentNewcomerIsAwaitedOnce(t *testing.T) {
	l := labOf(t, "AB")
	m := l.leader().m
	tip := m.chain.Tip()
	claim := func(inc slot.Incarnation) *contact {
		a := m.presence.meet(memberKey{labID("Z"), inc}, m.now, tip.Members, m.chain.Newcomers())
		a.joinHeard, a.alive = m.now, &wire.Alive{
			Synced: true, Tip: m.chain.TipHash(), Height: tip.Height,
			Applied: tip.Height,
		}
		return a
	}
	expect := func(when string, inc slot.Incarnation, want bool) {
		t.Helper()
		if m.roster.ready(claim(inc)) != want {
			t.Errorf("%s: listed %v", when, !want)
		}
	}
	expect("its first draft", 1, true)
	lead := m.open.lead
	members := insertMember(tip.Members, m.chain.Listing(labID("Z"), 1))
	draft := draftOf(0, slot.Record{Members: members}, nil)
	lead.draft, lead.draftAt, lead.haves = &draft, m.now, map[memberKey]wire.SignedHave{}
	gave := func(e slot.Member) bool { return e.Peer != labID("Z") }
	m.drafter.giveUpWaiting(gave)
	if m.open.lead != lead {
		t.Error("the draft is given up at once")
	}
	m.now += m.cfg.Timing.Beat
	m.drafter.giveUpWaiting(gave)
	if m.open.lead == lead || m.open.lead.ref.Ballot != 1 {
		t.Error("a Beat later the draft is not given up for the next try")
	}
	expect("the next draft", 1, false)
	expect("in another incarnation", 2, false)
	m.now += m.cfg.Timing.Lost + 1
	expect("a draft after Lost", 2, true)
}

// Members that have no seat must not keep electors from being asked first: in an open run anybody
// is a member at once, under any number of names.
func TestElectorsAreAskedFirst(t *testing.T) {
	l, say := hostileLab(t, "abcxy")
	x := l.peers[3]
	tip := x.m.chain
	for i, e := range tip.Members() {
		tip.Members()[i].Seat = 0
		if e.Peer == labID("y") {
			tip.Members()[i].Seat = 1
		}
		_ = say(x, labName(e.Peer), e.Incarnation, synced(tip))
	}
	if from := x.m.presence.sources(x.m.presence.appliedBy(0)...); len(from) != 4 || from[0] != labID("y") {
		t.Errorf("fetches from %s", labNames(from))
	}
}

// Peers whose IDs come first must not be all that is asked: anybody can make such IDs.
func TestSourcesAreDrawnAtRandom(t *testing.T) {
	l, say := hostileLab(t, "xy")
	x := l.peers[0]
	for i := range 40 {
		_ = say(x, fmt.Sprintf("a%02d", i), 1, synced(x.m.chain))
	}
	x.m.presence.cfg.Rand = rand.New(rand.NewPCG(1, 1)).Uint64
	asked := map[slot.PeerID]bool{}
	for range 20 {
		for _, p := range x.m.presence.sources(x.m.presence.appliedBy(0)...) {
			asked[p] = true
		}
	}
	if len(asked) < 2*maxSources {
		t.Errorf("of 41 peers only %d are ever asked", len(asked))
	}
}
