package chaos

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco"
)

func someSoak() SoakConfig {
	return SoakConfig{
		Config: Config{
			Peers: 6, Mode: p2pdiloco.ModeSync, Trust: p2pdiloco.TrustCrash, Seed: 1, Kinds: SoakKinds,
		},
		Minutes: 30, FaultsPerHour: 120,
	}
}

// TestSoakSchedule: each interval has one fault, each kind has its turn, and the seed decides.
func TestSoakSchedule(t *testing.T) {
	c := someSoak()
	first, met := SoakSchedule(c), map[Kind]bool{}
	for i, f := range first {
		if met[f.Kind] = true; f.After < 30*float64(i) || f.After >= 30*float64(i+1) {
			t.Errorf("fault %d begins after %v s", i, f.After)
		}
	}
	if len(first) != 60 || len(met) != len(SoakKinds) || !reflect.DeepEqual(first, SoakSchedule(c)) {
		t.Errorf("%d faults in half an hour of the kinds %v, or two schedules of one seed differ", len(first), met)
	}
	if c.Seed = 2; reflect.DeepEqual(first, SoakSchedule(c)) {
		t.Error("another seed gives the same schedule")
	}
}

func TestSoakIsJudged(t *testing.T) {
	for _, c := range []struct {
		name          string
		slots, tokens uint64
		ok            bool
		left, missed  int
		want          bool
	}{
		{"met", 98, 960, true, 1, 0, true},
		{"too few slots", 97, 1000, true, 0, 0, false},
		{"too few tokens", 100, 959, true, 0, 0, false},
		{"a check failed", 100, 1000, false, 0, 0, false},
		{"few faults had time", 100, 1000, true, 2, 0, false},
		{"a fault missed its leader", 100, 1000, true, 1, 1, false},
	} {
		r := SoakResult{
			Faulted: Result{OK: c.ok, Slots: c.slots, Tokens: c.tokens, Left: c.left, Faults: make([]Injected, 12)},
			Control: Result{OK: true, Slots: 100, Tokens: 1000},
		}
		r.Faulted.Faults[3].Missed = c.missed > 0
		if r.judge(); r.Met != c.want {
			t.Errorf("%s: met is %v", c.name, r.Met)
		}
		var b strings.Builder
		if r.print(&b); strings.Contains(b.String(), "missed") == (r.Met || !c.ok) {
			t.Errorf("%s: %s", c.name, b.String())
		}
	}
}

// TestSoakEndsTogether: faults come when it is time, the gate runs ahead, and stays where it is
// once the time is over. The soak ends when all peers hold the state after the gate's slot. Slots
// before and after the time do not count.
func TestSoakEndsTogether(t *testing.T) {
	r := paper(3)
	r.soak, r.pending = &soak{length: time.Minute}, []Fault{{After: 1}, {After: 59}}
	r.ledger.slot = 5
	if r.goOn() != nil || r.soak.from.IsZero() {
		t.Error("the swarm trains, and the time does not run")
	}
	r.soak.from = time.Now().Add(-2 * time.Second)
	if r.goOn() != nil || !r.isTime(r.pending[0]) || r.isTime(r.pending[1]) || r.ahead() != 5+soakAhead {
		t.Errorf("pending %v, the gate may open to %d", r.pending, r.ahead())
	}
	for slot, after := range []time.Duration{-time.Second, time.Second, 2 * time.Second, time.Minute} {
		r.ledger.commits[uint64(slot)], r.ledger.tokens[uint64(slot)] = r.soak.from.Add(after), 10
	}
	if slots, tokens := r.ledger.within(r.soak.from, time.Minute); slots != 2 || tokens != 20 {
		t.Errorf("%d slots, %d tokens", slots, tokens)
	}
	r.gate.slot, r.soak.from = 9, time.Now().Add(-time.Hour)
	for range 2 {
		if r.goOn() != nil || r.soak.ends != nil || r.ahead() != 9 || len(r.pending) != 0 {
			t.Errorf("it ends at slot %d of %d with %v", r.ledger.slot, r.gate.slot, r.pending)
		}
		r.ledger.slot = 9 // but no peer says that it holds the state
	}
	for _, p := range r.nodes {
		p.status.Slot = 9
	}
	if r.goOn() != nil || len(r.soak.ends) != 3 || r.cfg.Slots != 9 || !r.isOver() {
		t.Errorf("ends %v", r.soak.ends)
	}
}
