package chaos

import (
	"strings"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/eventlog"
)

// TestFaultsComeInsideOfSlowReductions: where reductions are slow, a fault begins some time after
// the plan of its slot or of a later one, which the gate lets pass; where they are not, with the
// commit of its slot.
func TestFaultsComeInsideOfSlowReductions(t *testing.T) {
	for _, c := range []struct {
		name      string
		reduction time.Duration
		planned   uint64
		ago       time.Duration
		slot      uint64
		want      bool
		gate      uint64
	}{
		{"before its slot", 4 * time.Second, 4, time.Hour, 4, false, 5},
		{"its slot is planned", 4 * time.Second, 5, time.Second, 4, false, 5},
		{"its slot is half reduced", 4 * time.Second, 5, 2 * time.Second, 4, true, 5},
		{"it is committed sooner than usual", 4 * time.Second, 5, time.Hour, 5, false, 6},
		{"the next slot is half reduced", 4 * time.Second, 6, 2 * time.Second, 5, true, 6},
		{"there is only the last slot left", 4 * time.Second, 58, time.Hour, 59, true, 59},
		{"reductions are quick", 0, 5, time.Hour, 4, false, 5},
		{"reductions are quick, and it is committed", 0, 5, 0, 5, true, 5},
	} {
		r := paper(4)
		r.dir, r.cfg.Reduction = t.TempDir(), c.reduction
		r.pending = []Fault{{Slot: 5, Kind: Kill, Pick: 150}}
		r.ledger.observe(eventlog.Line{Event: "slot.planned", Slot: c.planned, Time: time.Now().Add(-c.ago)})
		r.ledger.slot = c.slot
		if got := r.isTime(r.pending[0]); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
		if err := r.openGate(); err != nil || r.gate.slot != c.gate {
			t.Errorf("%s: gate at %d, %v", c.name, r.gate.slot, err)
		}
		if r.suffer(Kill, 1); c.slot == 5 { // one more may not be down with four
			if r.gate.slot = 0; r.openGate() != nil || r.gate.slot != 5 {
				t.Errorf("%s: the gate is at %d while the fault waits for others to be over", c.name, r.gate.slot)
			}
		}
	}
}

// TestReductionsAreTimed: from the first plan of a slot, whoever says it, until its first commit.
func TestReductionsAreTimed(t *testing.T) {
	r := paper(4)
	at := time.Now()
	for _, l := range []eventlog.Line{
		{Event: "slot.planned", Slot: 5, Time: at},
		{Event: "slot.planned", Slot: 5, Time: at.Add(time.Second)},
	} {
		r.ledger.observe(l)
	}
	if !r.ledger.reducing() {
		t.Error("a slot is planned, and none is reduced")
	}
	r.ledger.observe(eventlog.Line{Event: "slot.committed", Slot: 5, Time: at.Add(3 * time.Second)})
	r.ledger.observe(eventlog.Line{Event: "slot.planned", Slot: 5, Time: at.Add(4 * time.Second)})
	if took := r.ledger.reductions(); r.ledger.reducing() || len(took) != 1 || took[0] != 3 {
		t.Errorf("reducing: %v, took %v", r.ledger.reducing(), took)
	}
	text := reductionText(Result{ReductionSeconds: 3, Faults: []Injected{{InReduction: true}, {}}})
	if !strings.HasPrefix(text, "a slot's reduction took 3.00 s (median); 1 of 2 faults") {
		t.Errorf("%q", text)
	}
}

// TestSlowReductions: a reduction of so many seconds takes a large model, and a bound on what peers
// send that the program takes.
func TestSlowReductions(t *testing.T) {
	slow := Config{Peers: 4, Slots: 20, Seed: 1, Reduction: 2 * time.Second}
	flags := strings.Join(slow.slowness(), " ")
	if slow.upload() != 3_300_000 || !strings.HasSuffix(flags, "--max-upload 3.3mbit") ||
		!strings.Contains(slow.Replay(), " --reduction 2s") {
		t.Errorf("%s, %s", flags, slow.Replay())
	}
	if longer := slow; longer.DefaultTimeout() <= (Config{Peers: 4, Slots: 20, Seed: 1}).DefaultTimeout() {
		t.Error("it has no more time")
	}
	slow.Reduction = time.Hour
	if err := slow.Validate(); err == nil || !strings.Contains(err.Error(), "--reduction 1h0m0s: allowed: 0 to 15s") {
		t.Errorf("an hour: %v", err)
	}
	quick := Config{Peers: 4}
	if flags, line := quick.slowness(), quick.Replay(); len(flags) != 2 || strings.Contains(line, "reduction") {
		t.Errorf("%v, %s", flags, line)
	}
}
