package replica

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/p2pdiloco/p2pdiloco/internal/checkpoint"
	"github.com/p2pdiloco/p2pdiloco/internal/disk"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/store"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// Archive reads the model that a peer has left on disk, or that a running one has there. It changes
// nothing.
type Archive struct {
	model    *model
	records  wire.Records
	height   uint64  // of the newest one
	wanted   *uint64 // slot; nil: the newest
	restored uint64  // slot of the checkpoint
}

// OpenArchive loads the newest checkpoint in dir, up to the wanted slot, that the records which are
// kept certify.
func OpenArchive(fsys disk.FS, run Run, dir string, kept *store.Reading, wanted *uint64, log *slog.Logger) (*Archive,
	error,
) {
	a := &Archive{records: kept, height: kept.Height, wanted: wanted}
	var err error
	cfg := checkpoint.Config{Logger: log, FS: fsys, ReadOnly: true}
	if a.model, err = openModel(run, dir, "", cfg, a.record); err != nil {
		return nil, err
	}
	return a, a.restore()
}

// record returns the certified record at a height.
func (a *Archive) record(height uint64) (wire.Commit, bool) {
	c, err := a.records.Record(height)
	return c, err == nil
}

func (a *Archive) restore() error {
	oldest, found := uint64(0), false
	err := a.model.restore(func(c checkpoint.Checkpoint) bool {
		oldest, found = c.Slot, true
		return a.wanted == nil || c.Slot <= *a.wanted
	})
	if at, held := a.model.state.position(); held {
		a.restored = at.Slot
	}
	if !errors.Is(err, checkpoint.ErrNotHeld) {
		return err
	}
	if found && a.wanted != nil && *a.wanted < oldest {
		return fmt.Errorf("slot %d is no longer on disk: the oldest checkpoint is of slot %d", *a.wanted, oldest)
	}
	return fmt.Errorf("no usable checkpoint that a record certifies: if the peer has just joined, try again after "+
		"the next slot (%w)", err)
}

// Advance applies the records above the checkpoint, up to the wanted slot or as far as outcomes are
// there.
func (a *Archive) Advance(ctx context.Context) error {
	s := a.model.state
	for at, _ := s.position(); at.Height < a.height; at, _ = s.position() {
		c, err := a.records.Record(at.Height + 1)
		if err != nil {
			return err
		}
		r := c.Record
		if err := ctx.Err(); err != nil {
			return err
		}
		if a.wanted != nil && r.Kind == slot.Step && r.Slot > *a.wanted {
			return nil
		}
		err = a.apply(r)
		if a.wanted == nil && errors.Is(err, checkpoint.ErrNotHeld) {
			return nil // this is the newest state that is on disk
		}
		if err != nil {
			return err
		}
	}
	if at, _ := s.position(); a.wanted != nil && at.Slot != *a.wanted {
		return fmt.Errorf("slot %d is not there yet: the newest is %d", *a.wanted, at.Slot)
	}
	return nil
}

// apply does one record's step, and compares the result with the root that the next record
// certifies.
func (a *Archive) apply(r slot.Record) error {
	if r.Kind != slot.Step {
		return a.model.state.pass(r)
	}
	at, err := a.model.state.step(r, func() (gradient, error) { return a.model.decode(r, nil) })
	if err != nil {
		return err
	}
	if root, ok := a.model.certifiedRoot(r.Height); ok && root != at.Root {
		return fmt.Errorf("the state after slot %d comes out as %s, certified is %s: this peer's disk or processor "+
			"is at fault; export from another peer",
			r.Slot, at.Root, root)
	}
	return nil
}

// Restored returns the slot of the checkpoint that the state came from.
func (a *Archive) Restored() uint64 { return a.restored }

// Read lends the anchor and then the optimizer's vectors, and says whether a record names the state
// root. If not, the records that led to the state are certified, but none follows yet.
func (a *Archive) Read(f func(at Position, certified bool, vectors [][]float32) error) error {
	return a.model.state.read(func(at Position, vectors [][]float32) error {
		root, ok := a.model.certifiedRoot(at.Height)
		return f(at, ok && root == at.Root, vectors)
	})
}
