package report

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco"
)

func TestReport(t *testing.T) {
	var c Collector
	for round, loss := range []float64{3, 2.5, 2} {
		c.Observe(p2pdiloco.Event{Name: "trainer.stats", Fields: map[string]any{"loss": loss, "tokens": uint64(10)}})
		if round > 0 {
			c.Observe(p2pdiloco.Event{Name: "slot.applied"})
		}
	}
	r := c.Report(p2pdiloco.Status{Run: "books", Slot: 7, Sent: 5}, true, 2*time.Second)
	if *r.LossFirst != 3 || *r.LossLast != 2 || r.RoundsApplied != 2 || r.Tokens != 30 || !r.Ended || r.Slot != 7 || r.BytesSent != 5 || r.WallSeconds != 2 {
		t.Errorf("got %+v", r)
	}
}

func TestNoLossIsNull(t *testing.T) {
	var c Collector
	b, err := json.Marshal(c.Report(p2pdiloco.Status{}, false, 0))
	if err != nil || !strings.Contains(string(b), `"loss_first":null`) {
		t.Errorf("got %s, %v", b, err)
	}
}

func TestBytes(t *testing.T) {
	for n, want := range map[uint64]string{
		0: "0 B", 999: "999 B", 1000: "1.0 kB", 999_949: "999.9 kB", 999_950: "1.0 MB", 33_500_000: "33.5 MB", 1 << 63: "9223.4 PB",
	} {
		if got := Bytes(n); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
}
