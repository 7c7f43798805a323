package nat

import (
	"testing"
	"time"
)

// TestRelayTotal: a peer relays for others a quarter of its own upload at most, and no more than it
// was told.
func TestRelayTotal(t *testing.T) {
	for _, c := range []struct{ upload, total, want int64 }{
		{0, 0, 0},
		{0, 5_000_000, 5_000_000},
		{1_000_000, 0, 250_000},
		{1_000_000, 5_000_000, 250_000},
		{1_000_000, 100_000, 100_000},
	} {
		r := newRelay(Env{}, Config{MaxUpload: c.upload, Relay: RelayConfig{Total: c.total}.WithDefaults()})
		now := time.Now()
		if _, err := r.rate.TurnSoon(int(10*c.want), now); err != nil {
			t.Fatal(err)
		}
		if got := r.cfg.Relay.Total; got != c.want || (r.rate.Ahead(now) > 9*time.Second) != (c.want > 0) {
			t.Errorf("upload %d, relaying %d: relays %d, ten seconds' bytes take %s; want %d", c.upload, c.total, got,
				r.rate.Ahead(now), c.want)
		}
	}
}
