package node

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco"
)

func TestReport(t *testing.T) {
	var c collector
	for round, loss := range []float64{3, 2.5, 2} {
		c.observe(p2pdiloco.Event{Name: "trainer.stats", Fields: map[string]any{"loss": loss, "tokens": uint64(10)}})
		if round > 0 {
			c.observe(p2pdiloco.Event{Name: "slot.applied"})
		}
	}
	r := c.sumUp(p2pdiloco.Status{Run: "books", Slot: 7, Sent: 5}, true, 2*time.Second)
	if *r.LossFirst != 3 || *r.LossLast != 2 || r.RoundsApplied != 2 || r.Tokens != 30 || !r.Ended || r.Slot != 7 ||
		r.BytesSent != 5 || r.WallSeconds != 2 {
		t.Errorf("got %+v", r)
	}
}

func TestNoLossIsNull(t *testing.T) {
	var c collector
	b, err := json.Marshal(c.sumUp(p2pdiloco.Status{}, false, 0))
	if err != nil || !strings.Contains(string(b), `"loss_first":null`) {
		t.Errorf("got %s, %v", b, err)
	}
}
