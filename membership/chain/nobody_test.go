package chain

import (
	"errors"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// A stranger sends a COMMIT of a step that nobody contributed to. Without the look at how many
// there are, the median of no norms ended every peer of a run in trust byzantine: a record is
// checked before its certificate is.
func TestAStepOfNobodyIsRefused(t *testing.T) {
	for _, byzantine := range []bool{false, true} {
		w := churned(byzantine, 9, 3, 20)
		next := w.Next()
		r := slot.Record{
			Run: w.rules.Run, Kind: slot.Step, Height: next.Height, Prev: next.Prev, Slot: w.OpenSlot(),
			Work: w.Tip().Work, Usual: w.UsualWeight(), Members: w.Members(),
		}
		if err := w.Extend(wire.Commit{Record: r}, verifyEd25519); !errors.Is(err, ErrInvalid) {
			t.Errorf("byzantine %v: %v", byzantine, err)
		}
	}
}
