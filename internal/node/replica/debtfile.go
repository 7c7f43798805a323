package replica

import (
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"

	"github.com/p2pdiloco/p2pdiloco/internal/checkpoint"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

const debtFolder = "feedback"

// debtFile keeps on disk what a peer owes (feedback): as a state without an optimizer in a store of
// its own, one file, of the newest checkpoint. A restart takes up an older checkpoint and applies
// the outcomes since. It takes up the debt when it comes to the state that the debt belongs to; if
// it never does, the debt is dropped. Where others count what is open, a debt names the run and the
// root of its state. A nil debtFile is that of a codec that loses nothing.
type debtFile struct {
	store    *checkpoint.Store
	run      slot.Root
	feedback *feedback
	log      *slog.Logger

	saved  checkpoint.Count // of the debt on disk; zero: none is
	loaded []float32        // from disk, not taken up yet
}

// openDebtFile reads what is in the folder beside the checkpoints. A file that cannot be used is
// reported in the log, and is done without.
func openDebtFile(cfg Config, f *feedback) (*debtFile, error) {
	if f == nil {
		return nil, nil
	}
	store, err := checkpoint.Open(filepath.Join(cfg.Dir, debtFolder), checkpoint.Config{
		Shape: checkpoint.Shape{Elements: f.elements()}, FrameBytes: 1, Logger: cfg.Logger, FS: cfg.FS,
	})
	if err != nil {
		return nil, err
	}
	d := &debtFile{store: store, run: cfg.Run.ID, feedback: f, log: cfg.Logger}
	all := make([]float32, f.elements())
	c, err := store.LoadNewest(nil, all)
	if errors.Is(err, checkpoint.ErrNotHeld) {
		return d, nil
	}
	d.saved, d.loaded = c.Count(), all
	return d, err
}

// countOf names the state that a debt belongs to.
func (d *debtFile) countOf(at Position) checkpoint.Count {
	name := slot.Hash(append(d.run[:], at.Root[:]...))
	return checkpoint.Count{Slot: at.Slot, Open: binary.BigEndian.Uint64(name[:])}
}

// reached takes in the state that is held. It takes up the debt that was loaded if it belongs to
// that, and drops it once that state is past.
func (d *debtFile) reached(at Position) {
	if d == nil || d.loaded == nil {
		return
	}
	switch {
	case d.saved == d.countOf(at):
		d.feedback.resume(d.loaded)
		d.log.Info("error feedback goes on where it was", "slot", at.Slot)
	case at.Slot >= d.saved.Slot:
		d.log.Warn("what encoding lost before the restart is not made up for (error feedback begins at zero)",
			"why", fmt.Sprintf("it belongs to another state after slot %d than %s, after slot %d, which is held",
				d.saved.Slot, at.Root.Short(), at.Slot))
	default:
		return
	}
	d.loaded = nil
}

// write writes what is owed at a state, if that is not on disk; publish follows. The debt does not
// change meanwhile.
func (d *debtFile) write(at Position) (*checkpoint.Written, error) {
	if d == nil || d.loaded != nil || d.saved == d.countOf(at) {
		return nil, nil
	}
	count, all := d.countOf(at), d.feedback.owed()
	return d.store.Write(at.Slot, count, checkpoint.TreeOf(count, all), all)
}

// publish has what was written take the place of the debt before.
func (d *debtFile) publish(w *checkpoint.Written) error {
	if w == nil {
		return nil
	}
	if err := w.Publish(); err != nil {
		return err
	}
	d.saved = w.Count()
	newest := func(uint64) (slot.Root, bool) { return w.Root, true }
	return d.store.Prune(checkpoint.Policy{State: newest, Outcome: newest})
}

func (d *debtFile) close() error {
	if d == nil {
		return nil
	}
	return d.store.Close()
}
