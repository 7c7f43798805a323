package nat

import (
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco/p2p/internal/limits"
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
		if _, err := r.allowed.Turn(int(10*c.want), now); err != nil {
			t.Fatal(err)
		}
		if got := r.cfg.Relay.Total; got != c.want || (r.allowed.Ahead(now) > 9*time.Second) != (c.want > 0) {
			t.Errorf("upload %d, relaying %d: relays %d, ten seconds' bytes take %s; want %d", c.upload, c.total, got,
				r.allowed.Ahead(now), c.want)
		}
	}
}

// TestRelayShare: many streams have their turns within what bytes may wait, at any rate.
func TestRelayShare(t *testing.T) {
	for _, c := range []struct {
		total int64
		want  int
	}{
		{0, 16 << 10},
		{5_000_000, 16 << 10},
		{640_000, 10_000},
		{128_000, 2_000},
		{limits.MinRate / relayShare, 1 << 10},
	} {
		if got := shareOf(c.total); got != c.want {
			t.Errorf("at %d bytes/s in all %d bytes go at a time, want %d", c.total, got, c.want)
		}
	}
}
