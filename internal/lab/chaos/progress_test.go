package chaos

import (
	"errors"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/eventlog"
	"github.com/p2pdiloco/p2pdiloco/internal/node/timing"
)

// TestNoProgress: a swarm that may train and has no record for a minute hangs. One that waits for
// its schedule does not, and with the timers of the internet all takes longer.
func TestNoProgress(t *testing.T) {
	for _, c := range []struct {
		name    string
		preset  string
		gate    uint64
		ago     time.Duration
		want    bool
		renewed bool
	}{
		{"in time", timing.LAN, 7, stuckAfter - time.Second, false, false},
		{"for a minute", timing.LAN, 7, stuckAfter + time.Second, true, false},
		{"the gate is closed", timing.LAN, 5, stuckAfter + time.Second, false, true},
		{"the gate is open to the end", timing.LAN, 60, stuckAfter + time.Second, true, false},
		{"slow timers", timing.WAN, 7, stuckAfter + time.Second, false, false},
		{"slow timers, for long", timing.WAN, 7, time.Hour, true, false},
	} {
		r := paper(4)
		r.cfg.Preset, r.ledger.slot, r.gate.slot = c.preset, 5, c.gate
		since := time.Now().Add(-c.ago)
		r.ledger.progress = since
		if err := r.stuck(); errors.Is(err, errHang) != c.want || r.ledger.progress.Equal(since) == c.renewed {
			t.Errorf("%s: %v, counted from then on: %v", c.name, err, r.ledger.progress.Equal(since))
		}
	}
	r := paper(4)
	r.ledger.slot, r.gate.slot = 60, 60 // the last slot is there, and some do not end
	if r.ledger.progress = time.Now().Add(-time.Hour); r.stuck() == nil {
		t.Error("peers that do not end after the last slot do not hang")
	}
}

// What a swarm does is progress, and what it repeats is not.
func TestWhatIsProgress(t *testing.T) {
	g := newLedger()
	g.height = 7
	for event, want := range map[string]bool{
		"record.certified": true, "slot.applied": true, "state.synced": true, "run.switched": true,
		"slot.planned": false, "record.proposed": false, "slot.waits": false,
	} {
		g.progress = time.Time{}
		if g.observe(eventlog.Line{Event: event, Height: 8}); g.progress.IsZero() == want {
			t.Errorf("%s: %v", event, !g.progress.IsZero())
		}
		g.height = 7
	}
	if g.observe(eventlog.Line{Event: "record.certified", Height: 8}); g.height != 8 {
		t.Errorf("height %d", g.height)
	}
	g.progress = time.Time{}
	if g.observe(eventlog.Line{Event: "record.certified", Height: 8}); !g.progress.IsZero() {
		t.Error("a certificate that another peer has, too, is progress")
	}
}
