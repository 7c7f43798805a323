package replica

import (
	"context"
	"errors"
	"slices"

	"github.com/p2pdiloco/p2pdiloco/internal/checkpoint"
	"github.com/p2pdiloco/p2pdiloco/internal/failpoint"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership"
)

// From a certified record to the new state:
//
//	1. obtain      the outcome's bytes are on disk, from the reduction, the hold job or other peers
//	2. decode      bytes -> aggregated pseudo-gradient of the slot's fragment
//	3. outer step  anchor and optimizer vectors, in that fragment
//	4. state root  hash of all vectors: the ledger compares it with what the next record certifies
//	5. settle      contributions, error feedback, reduction and lent segments of the slot
//	6. checkpoint  every few slots
//
// The steps follow each other. Decoding and the outer step take all cores, and so does the hash. A
// record that is no step of the model does none of them: the position alone moves on.
//
// 2 to 4 run under the state's lock, so readers see the state before the slot or after it. Nothing
// that others can see depends on 5 and 6.

// apply applies a certified record to the state.
func (r *Replica) apply(ctx context.Context, work membership.WorkApply) error {
	if work.Record.Kind != slot.Step {
		return r.model.state.pass(work.Record)
	}
	failpoint.Here(failpoint.ApplyBegins)
	err := r.step(ctx, work)
	if errors.As(err, new(*checkpoint.CorruptError)) || errors.Is(err, checkpoint.ErrNotHeld) {
		// The bad file was set aside, or somebody has removed it: the outcome comes once more, from
		// the reduction or from other peers.
		err = r.step(ctx, work)
	}
	return err
}

// step does the outer step of a record with its outcome, and what follows from it. From 2 on nobody
// else makes a checkpoint: it would have the new state beside the feedback of the one before.
func (r *Replica) step(ctx context.Context, work membership.WorkApply) error {
	record := work.Record
	held := r.jobs.done("hold", holdPurpose(record.Height, record.Prev, record.Outcome()))
	if err := r.outcomes.obtain(ctx, record, work.From, held); err != nil {
		return err
	}
	r.border.Lock()
	defer r.border.Unlock()
	here, _, _, done := r.outcomes.present(outcome{segments: record.Segments})
	var stats SlotStats
	at, err := r.model.state.step(record, func() (gradient, error) {
		grad, err := r.model.decode(record, here)
		if err == nil {
			stats = r.measure(record, grad)
		}
		return grad, err
	})
	done()
	if err != nil {
		return err
	}
	r.cfg.Emit("slot.applied", map[string]any{
		"slot": at.Slot, "height": at.Height, "record": record.Hash(), "state_root": at.Root,
	})
	r.tally.add(stats)
	r.cfg.Emit("slot.stats", stats.fields())
	r.conduct.Decided(record)
	r.settle(record)
	r.feedbackFile.reached(at)
	failpoint.Here(failpoint.Applied)
	// there is no checkpoint where somebody has removed the files
	if at.Slot%r.cfg.Every == 0 || len(r.model.store.List()) == 0 {
		r.save()
	}
	return nil
}

// settle frees what a decided slot does not need any more (5).
func (r *Replica) settle(record slot.Record) {
	r.outcomes.decided(record.Height)
	r.contributions.settle(record)
	r.reductions.decided(record.Slot)
	r.auditor.Decided(record.Slot)
}

// Save makes a checkpoint of the state held, if there is one, and drops what newer checkpoints make
// needless. A failure is logged, and Save is tried again with a later slot: nothing agreed is lost
// by it, for the outcomes since the last checkpoint stay.
func (r *Replica) Save() {
	r.border.Lock()
	defer r.border.Unlock()
	r.save()
}

// save is Save for who holds border.
func (r *Replica) save() {
	if _, held := r.Position(); !held {
		return
	}
	err := r.model.state.read(func(at Position, vectors [][]float32) error {
		if slices.ContainsFunc(r.model.store.List(), func(c checkpoint.Checkpoint) bool { return c.Root == at.Root }) {
			return nil // the records since then have left the state as it was
		}
		return r.model.store.Save(at.Height, at.Slot, at.Root, vectors...)
	})
	failpoint.Here(failpoint.CheckpointSaved)
	if at, _ := r.Position(); err == nil {
		err = r.feedbackFile.save(at)
	}
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
