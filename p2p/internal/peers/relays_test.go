package peers

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestRelaySilence: what comes from a relay that is asked is a sign of its life.
func TestRelaySilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := NewRelays()
		if !r.began("relay") || r.began("relay") {
			t.Error("one ping at a time")
		}
		time.Sleep(time.Second)
		r.Saw("another")
		if got := r.silence("relay"); got != time.Second {
			t.Errorf("silent for %s after bytes from another one", got)
		}
		r.Saw("relay")
		if got := r.silence("relay"); got != 0 {
			t.Errorf("silent for %s after bytes from it", got)
		}
		if len(r.mu.heard) != 1 {
			t.Error("a relay that is not asked is remembered")
		}
	})
}
