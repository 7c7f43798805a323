package round

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	_ "github.com/p2pdiloco/p2pdiloco/internal/onecpu"
)

// A peer that leaves does not wait for a save for ever.
func TestTheLastSaveIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		longer, stop := outlast(ctx, lastSaveTime)
		defer stop()
		if cancel(); longer.Err() != nil {
			t.Error("a save ends as soon as its peer is told to leave")
		}
		began := time.Now()
		if <-longer.Done(); time.Since(began) != lastSaveTime {
			t.Errorf("the last save may take %v", time.Since(began))
		}
	})
}
