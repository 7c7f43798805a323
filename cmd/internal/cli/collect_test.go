package cli

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/internal/eventlog"
)

func TestReport(t *testing.T) {
	var c collector
	for round, loss := range []float64{3, 2.5, 2} {
		c.observe(p2pdiloco.Event{Name: "trainer.stats", Fields: map[string]any{"loss": loss, "tokens": uint64(10)}})
		if round > 0 {
			c.observe(p2pdiloco.Event{Name: "slot.applied"})
		}
	}
	s := p2pdiloco.Status{Run: "books", Slot: 7, Sent: 5, Phase: p2pdiloco.PhaseEnded}
	r := c.sumUp(s, 2*time.Second)
	if *r.LossFirst != 3 || *r.LossLast != 2 || r.RoundsApplied != 2 || r.Tokens != 30 || !r.Ended || r.Slot != 7 ||
		r.BytesSent != 5 || r.WallSeconds != 2 {
		t.Errorf("got %+v", r)
	}
}

func TestNoLossIsNull(t *testing.T) {
	var c collector
	b, err := json.Marshal(c.sumUp(p2pdiloco.Status{}, 0))
	if err != nil || !strings.Contains(string(b), `"loss_first":null`) {
		t.Errorf("got %s, %v", b, err)
	}
}

// A model is the run's only where all know it so: a branch says what it is.
func TestHowAPeerEnded(t *testing.T) {
	for phase, want := range map[p2pdiloco.Phase]eventlog.Peer{
		p2pdiloco.PhaseEnded:            {Ended: true, Status: "ended"},
		p2pdiloco.PhaseEndedProvisional: {Status: "ended_provisional"},
		p2pdiloco.PhaseEndedMissed:      {Status: "ended_missed"},
		p2pdiloco.PhaseRunning:          {Status: "left"},
	} {
		got := new(collector).sumUp(p2pdiloco.Status{Phase: phase}, 0)
		if got.Ended != want.Ended || got.Status != want.Status {
			t.Errorf("%s: ended %v, status %s", phase, got.Ended, got.Status)
		}
	}
}
