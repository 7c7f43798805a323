package replica

import (
	"slices"

	"github.com/p2pdiloco/p2pdiloco/internal/checkpoint"
)

// Save makes a checkpoint of the state held, if there is one, and drops what newer checkpoints make
// needless. A failure is logged, and Save is tried again with a later slot: nothing agreed is lost
// by it, for the outcomes since the last checkpoint stay.
func (r *Replica) Save() {
	if _, held := r.Position(); !held {
		return
	}
	err := r.model.state.read(func(at Position, vectors [][]float32) error {
		if slices.ContainsFunc(r.model.store.List(), func(c checkpoint.Checkpoint) bool { return c.Root == at.Root }) {
			return nil // the records since then have left the state as it was
		}
		return r.model.store.Save(at.Height, at.Slot, at.Root, vectors...)
	})
	if err == nil {
		err = r.model.store.Prune(checkpoint.Policy{
			Keep: r.cfg.Keep, Hold: r.spared(), State: r.model.certifiedRoot, Outcome: r.model.certifiedOutcome,
		})
	}
	if err != nil {
		r.log.Error("checkpoint failed: the older one and the outcomes since are kept", "err", err)
	}
}

// spared keeps what others are fetching for some checkpoints longer than this peer needs it, but
// not for ever. A peer to which a state takes more slots to come than a few could not keep up with
// the outcomes either, of which each is as large as the anchor.
func (r *Replica) spared() checkpoint.Hold {
	return checkpoint.Hold{For: 6 * r.cfg.Stall, Heights: max(16, 3*uint64(r.cfg.Keep)*r.cfg.Every)}
}
