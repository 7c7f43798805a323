package membership

import (
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// A member slept, or its process was stopped, while the others died. It looks for them for a whole
// ForkAfter from its return on before it goes on alone, whatever its clock says.
func TestAReturnedMemberLooksForTheOthersFirst(t *testing.T) {
	for name, told := range map[string]bool{"it knows that it was away": true, "it does not": false} {
		rules, timing := labRules(), labTiming
		rules.StartPeers, timing.ForkAfter = 3, 10*time.Second
		l := newLab(t, rules, timing)
		a, b, c := l.add("A"), l.add("B"), l.add("C")
		l.connect()
		l.awaits(t, "a slot of three", func() bool { return len(a.m.chain.Members()) == 3 && a.m.chain.Tip().Slot > 0 })
		b.crash()
		c.crash()
		branch := a.m.chain.Branch()
		forked := func() bool { return a.m.chain.Branch() != branch }
		if l.run(2*time.Second, forked) {
			t.Fatal("it forked at once")
		}
		a.ahead += time.Hour
		if told {
			a.report(ReportReturned{})
		}
		at := l.now
		early := l.run(timing.ForkAfter-time.Second, forked)
		if early {
			t.Errorf("%s: it has forked %v after its return", name, l.now-at)
		}
		if !early && !l.run(time.Minute, forked) {
			t.Errorf("%s: it never went on alone", name)
		}
	}
}

// The process of a peer that decides alone, or with one other, was stopped: whoever it had heard
// before is not lost when it goes on. It looks at what it has missed before it judges.
func TestAReturnedPeerDropsNobodyWhoWasHeard(t *testing.T) {
	for name, told := range map[string]bool{"it knows that it was away": true, "it does not": false} {
		t.Run(name, func(t *testing.T) {
			rules := labRules()
			rules.StartPeers = 2
			l := newLab(t, rules, labTiming)
			a, b := l.add("A"), l.add("B")
			l.connect()
			both := func() bool { return len(a.m.chain.Members()) == 2 && a.m.chain.Tip().Slot > 0 }
			l.awaits(t, "both are members", both)
			alone := func(e slot.Member) bool { return e.Peer == a.id }
			if !rules.Quorum(a.m.chain.Electorate(), alone) {
				a, b = b, a // the one that decides alone
			}
			l.run(time.Minute, func() bool { return a.m.open.lead != nil })
			a.ahead += 20 * labTiming.Lost
			if told {
				a.report(ReportReturned{})
			}
			if l.run(10*labTiming.Lost, func() bool { return len(a.m.chain.Members()) < 2 }) {
				t.Errorf("%s was dropped\n%s", b.name, l.show())
			}
			b.crash() // who is gone is still noticed
			l.awaits(t, b.name+" is dropped", func() bool { return len(a.m.chain.Members()) < 2 })
		})
	}
}

// A leader was stopped in the middle of a reduction, for longer than Lost. When it goes on it
// handles what the others have sent meanwhile one message at a time. Those whose messages it comes
// to last are in its plan still once a quorum is heard again.
func TestAReturnedLeaderKeepsItsGroup(t *testing.T) {
	for name, told := range map[string]bool{"it knows that it was away": true, "it does not": false} {
		t.Run(name, func(t *testing.T) {
			l, leader := plannedLab(t, "ABCDE", false)
			leader.trickle = 1 // its reduction makes progress
			leader.ahead += 2 * labTiming.Lost
			if told {
				leader.report(ReportReturned{})
			}
			l.rests(labTiming.Lost / 2)
			lead := leader.m.open.lead
			if lead == nil || lead.plan == nil || lead.plan.Living() != 5 {
				t.Fatalf("its plan has changed\n%s", l.show())
			}
			dead := l.aside(leader, 1)
			dead.crash() // who is gone is still noticed
			gone := func() bool { return lead.plan != nil && lead.plan.Gone.Has(lead.plan.Place(dead.id)) }
			l.within(t, 2*labTiming.Lost, dead.name+" is not waited for", gone)
		})
	}
}

// A leader was stopped while it waited for offers. When it goes on it still waits for those whose
// messages it comes to last.
func TestAReturnedLeaderWaitsForOffers(t *testing.T) {
	l := labOf(t, "ABCDE")
	for _, p := range l.peers {
		p.report(ReportContributes{Contributes: true})
	}
	l.rests(time.Second)
	leader := l.leader()
	open := leader.m.chain.OpenSlot()
	others := l.others(leader)
	leader.offer(open)
	others[0].offer(open) // it is heard first
	l.rests(100 * time.Millisecond)
	leader.ahead += 2 * labTiming.Lost
	leader.report(ReportReturned{})
	planned := func() bool { return leader.m.open.lead == nil || leader.m.open.lead.plan != nil }
	if l.run(time.Second, planned) {
		t.Fatalf("it planned with two of five\n%s", l.show())
	}
	for _, p := range others[1:] {
		p.offer(open)
	}
	if !l.run(time.Second, planned) || len(leader.m.open.lead.plan.Offers) != 5 {
		t.Errorf("it does not plan with all\n%s", l.show())
	}
}

// At the end of the run a peer stays for those that may come for the model. Time in which it did
// not run served nobody.
func TestAStopIsNoTimeServed(t *testing.T) {
	rules, timing := labRules(), labTiming
	rules.StartPeers, rules.LastSlot, timing.ForkAfter = 4, 12, 20*time.Second
	l := connectedLab(t, rules, timing, "ABCD")
	a, late := l.peers[0], l.peers[3]
	l.awaits(t, "slot 3", func() bool { return a.m.View().AppliedSlot >= 3 })
	late.crash() // it is waited for
	l.within(t, 2*time.Minute, "its exit is final", func() bool { return a.m.exit.final })
	a.ahead += timing.Linger
	a.report(ReportReturned{})
	done := func() bool { return a.m.View().Done }
	if l.run(timing.Linger-2*time.Second, done) {
		t.Error("it has gone before the others had the time")
	}
	l.within(t, timing.Linger, "it goes", done)
}

// A peer was stopped while another one showed it a better branch. It does not blame the other for
// its own stop.
func TestAReturnedPeerBlamesNoDonor(t *testing.T) {
	l := labOf(t, "ABC")
	a, donor := l.peers[0], labID("Z")
	m := a.m
	m.competing.gathering = &branch{
		claim: wire.Alive{Height: 100}, from: donor, asked: m.now, began: m.now, got: m.now,
	}
	a.ahead += 2 * maxGathering * labTiming.Retry
	a.report(ReportReturned{})
	m.Tick(a.clock())
	if m.competing.gathering == nil || m.competing.doubts.has(donor) {
		t.Error("it passes over who was showing it a branch")
	}
	m.Tick(a.clock() + 9*labTiming.Retry)
	if m.competing.gathering != nil || !m.competing.doubts.has(donor) {
		t.Error("it waits for ever for a branch that is not shown")
	}
}

// The clock of the machine's timers, or that of the day alone, may have gone on while a process did
// not run.
func TestStoodStill(t *testing.T) {
	last := time.Now()
	day := last.Round(0) // without the timers' clock
	for _, c := range []struct {
		now  time.Time
		want bool
	}{
		{last.Add(time.Second), false},
		{last.Add(-time.Minute), false},
		{last.Add(time.Minute), true}, // both
		{day.Add(time.Minute), true},
		{day.Add(time.Second), false},
	} {
		if got := stoodStill(last, c.now, 5*time.Second); got != c.want {
			t.Errorf("%v later: %v", c.now.Sub(last), got)
		}
	}
}
