package chaos

import (
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/internal/eventlog"
)

func someSoak() SoakConfig {
	return SoakConfig{
		Peers: 6, Minutes: 30, FaultsPerHour: 120, Trust: p2pdiloco.TrustCrash, Seed: 1, Kinds: SoakKinds,
		Pause: time.Second,
	}
}

func TestSoakScheduleIsAFunctionOfItsArguments(t *testing.T) {
	c := someSoak()
	first := SoakSchedule(c)
	if len(first) != 60 || !reflect.DeepEqual(first, SoakSchedule(c)) {
		t.Errorf("%d faults in half an hour, or two schedules of one seed differ", len(first))
	}
	if c.Seed = 2; reflect.DeepEqual(first, SoakSchedule(c)) {
		t.Error("another seed gives the same schedule")
	}
	if c.FaultsPerHour = 0; len(SoakSchedule(c)) != 0 {
		t.Error("there are faults, and none are wanted")
	}
}

// TestSoakScheduleKeepsItsIntervals: each interval has one fault, and each kind has its turn.
func TestSoakScheduleKeepsItsIntervals(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := someSoak()
		c.Seed = rapid.Uint64Min(1).Draw(t, "seed")
		c.FaultsPerHour = rapid.IntRange(1, maxFaultsPerHour).Draw(t, "faults per hour")
		interval := 3600 / float64(c.FaultsPerHour)
		met := map[Kind]bool{}
		faults := SoakSchedule(c)
		for i, f := range faults {
			met[f.Kind] = true
			if f.After < float64(i)*interval || f.After >= float64(i+1)*interval || f.After > 1800 {
				t.Fatalf("fault %d begins after %v s, with an interval of %v s", i, f.After, interval)
			}
		}
		if len(faults) >= len(cards(SoakKinds)) && len(met) != len(SoakKinds) {
			t.Fatalf("%d faults, and only %v", len(faults), met)
		}
	})
}

func TestSoakConfig(t *testing.T) {
	if err := someSoak().Validate(); err != nil {
		t.Error(err)
	}
	bad := SoakConfig{
		Peers: 2, Minutes: -1, FaultsPerHour: -1, Trust: "blind", Kinds: []Kind{All}, Pause: -1,
	}
	err := bad.Validate()
	for _, want := range []string{
		"peers", "minutes", "faults-per-hour", "trust", "seed", "all is not for a soak", "step-time",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not name %s", err, want)
		}
	}
}

// TestSoakCountsItsTime: slots before and after the time do not count, and their tokens do not.
func TestSoakCountsItsTime(t *testing.T) {
	from := time.Now()
	g := ledger{commits: map[uint64]time.Time{}, tokens: map[uint64]uint64{}}
	for slot, after := range map[uint64]time.Duration{
		1: -time.Second, 2: time.Second, 3: 2 * time.Second, 4: time.Minute,
	} {
		g.observe(eventlog.Line{Event: "slot.committed", Slot: slot, Time: from.Add(after)})
		for range 3 { // each peer says so
			g.observe(eventlog.Line{Event: "slot.stats", Slot: slot, Weight: 10})
		}
	}
	if slots, tokens := g.within(from, time.Minute); slots != 2 || tokens != 20 {
		t.Errorf("%d slots, %d tokens", slots, tokens)
	}
}

func TestSoakIsJudged(t *testing.T) {
	for _, c := range []struct {
		name          string
		slots         int
		tokens        uint64
		ok, want      bool
		controlTokens uint64
	}{
		{"met", 98, 960, true, true, 1000},
		{"too few slots", 97, 1000, true, false, 1000},
		{"too few tokens", 100, 959, true, false, 1000},
		{"a check failed", 100, 1000, false, false, 1000},
		{"nothing to compare with", 100, 1000, true, false, 0},
		{"few faults had time", 100, 1000, true, false, 1000},
		{"a fault missed its leader", 100, 1000, true, false, 1000},
	} {
		r := SoakResult{
			Faulted: Soaked{OK: c.ok, Slots: c.slots, Tokens: c.tokens},
			Control: Soaked{OK: true, Slots: 100, Tokens: c.controlTokens},
		}
		r.Faulted.Faults = make([]Injected, 12)
		if r.Faulted.Left = 1; c.name == "few faults had time" {
			r.Faulted.Left = 2
		}
		r.Faulted.Faults[3].Missed = c.name == "a fault missed its leader"
		if r.judge(); r.Met != c.want {
			t.Errorf("%s: met is %v", c.name, r.Met)
		}
		var b strings.Builder
		r.Replay = "again"
		if r.print(&b); strings.Contains(b.String(), "again") == r.Met {
			t.Errorf("%s: %s", c.name, b.String())
		}
	}
}

// TestSoakEndsTogether: faults come when it is time, the gate runs ahead, and stays where it is
// once the time is over. The soak ends when all peers hold the state after the gate's slot.
func TestSoakEndsTogether(t *testing.T) {
	r := paper(3)
	r.soak = &soak{length: time.Minute, faults: []TimedFault{{After: 1, Fault: Fault{Kind: Kill}}, {After: 59}}}
	r.soak.ready = &atomic.Int32{}
	r.soak.ready.Store(1) // the other one trains
	r.ledger.slot = 5
	if r.goOn(); r.soak.from.IsZero() {
		t.Error("this swarm was the second to train, and the time does not run")
	}
	r.soak.from = time.Now().Add(-2 * time.Second)
	if r.goOn(); len(r.pending) != 1 || len(r.soak.faults) != 1 || r.ahead() != 5+soakAhead {
		t.Errorf("pending %v, the gate may open to %d", r.pending, r.ahead())
	}
	r.gate.slot, r.soak.from = 9, time.Now().Add(-time.Hour)
	for range 2 {
		if r.goOn(); r.soak.ends != nil || r.ahead() != 9 || len(r.pending) != 0 {
			t.Errorf("it ends at slot %d of %d with %v", r.ledger.slot, r.gate.slot, r.pending)
		}
		r.ledger.slot = 9 // but no peer says that it holds the state
	}
	for _, p := range r.nodes {
		p.status.Slot = 9
	}
	if r.goOn(); len(r.soak.ends) != 3 || r.last() != 9 || !r.over() || r.soak.left != 2 {
		t.Errorf("ends %v, %d faults left", r.soak.ends, r.soak.left)
	}
}
