package chaos

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/lab"
)

// A run under load has one kill, near its end. With the schedule of other runs a member would be
// killed every few slots, and nothing would tell that none is lost without that.
func TestALoadForTheWholeRun(t *testing.T) {
	c := Config{Seed: 3, Peers: 6, Slots: 64, Kinds: lab.Names[Kind]{Load}, Load: 10}
	got := c.schedule()
	if len(got) != 1 || got[0].Kind != Load || got[0].Slot != 60 || got[0].Seconds != 0 {
		t.Errorf("a load alone: %+v", got)
	}
	if !strings.Contains(c.Replay(), " --load 10") || c.DefaultTimeout() < 64*10*time.Second {
		t.Errorf("%s within %v", c.Replay(), c.DefaultTimeout())
	}
	c.Kinds = lab.Names[Kind]{Load, End}
	got = c.schedule()
	if i := slices.IndexFunc(got, func(f Fault) bool { return f.Kind == Load }); len(got) != 2 || i != 0 {
		t.Errorf("before the end of a run: %+v", got)
	}
	c.Load = 0
	if got := c.schedule(); len(got) < 10 {
		t.Errorf("without a load of the whole run: %+v", got)
	}
	r := paper(6)
	r.cfg.Load = 10
	f := Injected{Fault: Fault{Kind: Load}, Victims: []int{4}, missedIn: 2300 * time.Millisecond}
	r.done = []Injected{f}
	want := "10 busy processes all the time; missed 2.3s after it was killed: peer 4"
	if got := r.checkLoad(); !got.OK || got.Detail != want {
		t.Errorf("got %+v, want %s", got, want)
	}
	for _, load := range []int{-1, maxLoad + 1} {
		c.Load = load
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), "load") {
			t.Errorf("a load of %d: %v", load, err)
		}
	}
}

// Busy processes end when they are told to. One that stayed would take a processor for good.
func TestLoopsEnd(t *testing.T) {
	var l loops
	if err := l.start(2); err != nil {
		t.Skip(err)
	}
	started := slices.Clone(l)
	l.end()
	for _, cmd := range started {
		if cmd.ProcessState == nil {
			t.Errorf("process %d still runs", cmd.Process.Pid)
		}
	}
	if len(l) > 0 {
		t.Errorf("%d are left", len(l))
	}
}
