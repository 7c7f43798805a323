package membership

import (
	"testing"
	"time"
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
		if !l.run(time.Minute, func() bool { return len(a.m.chain.Members()) == 3 && a.m.chain.Tip().Slot > 0 }) {
			t.Fatal(l.show())
		}
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
		if early == told {
			t.Errorf("%s: %v after its return it has forked: %v", name, l.now-at, early)
		}
		if !early && !l.run(time.Minute, forked) {
			t.Errorf("%s: it never went on alone", name)
		}
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
