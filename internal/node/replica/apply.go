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
//	6. checkpoint  every few slots, beside the next one
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
	r.count(stats)
	r.cfg.Emit("slot.stats", stats.fields())
	r.figures.Decided(record)
	r.settle(record)
	r.debtFile.reached(at)
	failpoint.Here(failpoint.Applied)
	return nil
}

// mostSkipped is how many checkpoints in a row are left out where the disk is slower than slots.
const mostSkipped = 3

// saveBeside makes the checkpoint that is due, if one is, beside the next slot: that one waits for
// it no longer than the system takes to have the bytes. ctx bounds the job that is started.
func (r *Replica) saveBeside(ctx context.Context) {
	at, held := r.Position()
	// there is no checkpoint where somebody has removed the files
	if !held || at.Slot%r.cfg.Every != 0 && len(r.model.store.List()) > 0 {
		return
	}
	if unfinished := r.jobs.done("save", "checkpoint"); unfinished != nil {
		if r.skipped++; r.skipped <= mostSkipped {
			return
		}
		<-unfinished
	}
	r.skipped = 0
	r.jobs.start(ctx, "save", "checkpoint", func(context.Context) { r.Save() })
}

// settle frees what a decided slot does not need any more (5).
func (r *Replica) settle(record slot.Record) {
	r.outcomes.decided(record.Height)
	r.contributions.settle(record)
	r.reductions.decided(record.Slot)
	r.auditor.Decided()
}

// Save makes a checkpoint of the state held, if there is one, and drops what newer checkpoints make
// needless. A failure is logged, and Save is tried again with a later slot: nothing agreed is lost
// by it, for the outcomes since the last checkpoint stay.
func (r *Replica) Save() {
	r.saving.Lock()
	defer r.saving.Unlock()
	if _, held := r.Position(); !held {
		return
	}
	publish, err := r.write()
	if err == nil {
		err = publish()
	}
	failpoint.Here(failpoint.CheckpointSaved)
	if err == nil {
		err = r.model.store.Prune(checkpoint.Policy{
			Keep: r.cfg.Keep, Hold: r.spared(), State: r.model.certifiedRoot, Outcome: r.model.certifiedOutcome,
		})
	}
	if err != nil {
		r.log.Error("checkpoint failed: the older one and the outcomes since are kept", "err", err)
	}
}

// write writes the state and the debt that belongs to it. Both may change when it returns; publish
// makes what was written durable.
func (r *Replica) write() (publish func() error, err error) {
	r.border.Lock()
	defer r.border.Unlock()
	var state, debt *checkpoint.Written
	err = r.model.state.read(func(at Position, vectors [][]float32) (err error) {
		// where it is held already the records since then have left the state as it was
		if !slices.ContainsFunc(r.model.store.List(), func(c checkpoint.Checkpoint) bool { return c.Root == at.Root }) {
			state, err = r.model.store.Write(at.Height, at.count(), r.model.state.treeOf(at, vectors), vectors...)
		}
		if err == nil {
			debt, err = r.debtFile.write(at)
		}
		return err
	})
	if err != nil {
		state.Drop()
	}
	return func() error {
		err := state.Publish()
		if err != nil {
			debt.Drop()
			return err
		}
		return r.debtFile.publish(debt)
	}, err
}

// spared keeps what others are fetching for some checkpoints longer than this peer needs it, but
// not for ever. A peer to which a state takes more slots to come than a few could not keep up with
// the outcomes either, of which each is as large as the anchor.
func (r *Replica) spared() checkpoint.Hold {
	return checkpoint.Hold{For: 6 * r.cfg.Stall, Heights: max(16, 3*uint64(r.cfg.Keep)*r.cfg.Every)}
}
