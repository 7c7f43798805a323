package replica

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/p2pdiloco/p2pdiloco/allreduce"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/statesync"
)

// outcomes gets the bytes of a slot's outcome on disk: from the reduction that this peer takes part
// in, and what that lacks from peers that have it.
type outcomes struct {
	self       slot.PeerID
	model      *model
	reductions *reductions
	client     *statesync.Client
	stall      time.Duration       // a reduction that brings nothing for so long will not complete
	dropped    func(statesync.Bad) // hears of owners that send too slowly

	// Segments, by root, of an outcome that is being gathered: they are lent to other peers that
	// lack them. Where connections failed here and there, it may be that nobody has all. A map that
	// is lent is not changed any more.
	lent atomic.Pointer[loan]
}

// loan are the segments of the outcome of a height that are lent.
type loan struct {
	height   uint64
	segments map[slot.Root]*statesync.Loan
}

// outcome names a slot's outcome, as a draft and a record both do.
type outcome struct {
	height        uint64
	contributions []slot.Offer
	segments      []slot.Segment
	certified     bool            // a quorum has it on disk
	held          <-chan struct{} // closed when the job that holds it ends; nil if none does
}

// missingError lists the segments that no peer gave, or that nobody can apply.
type missingError struct {
	error
	ranges []slot.Range
}

func (e missingError) Unwrap() error { return e.error }

// syncBytes of an outcome are written to the disk at a time, beside the reduction.
const syncBytes = 16 << 20

// writeAhead writes the frames of a reduction's outcome that are readable as they come, so that a
// draft finds most of it on disk. What fails is met again when the outcome is held.
func (o *outcomes) writeAhead(ctx context.Context, r *allreduce.Reduction) {
	m, plan := o.model, r.Plan()
	values, elements := make([]float32, m.run.Params.FrameElements), m.run.Params.Fragments[plan.Fragment]
	begun, err := m.store.BeginOutcome(plan.Height)
	for unsynced := 0; err == nil; {
		index, frame, done, ok := r.Next(ctx)
		if !ok {
			return
		}
		due := elements - uint64(index*len(values))
		if m.run.AuditSamples > 0 || m.readableFrame(frame.Bytes, values, due) { // as in hold
			err = begun.Write(index, frame)
		}
		done()
		if unsynced += len(frame.Bytes); err == nil && unsynced >= syncBytes {
			unsynced, err = 0, begun.Sync()
		}
	}
}

// hold gets the outcome of a draft on disk, if it is one that can be applied: once a record of it
// is certified, nobody can go on without it.
func (o *outcomes) hold(ctx context.Context, d slot.Draft, from []slot.PeerID) error {
	if d.Kind != slot.Step || o.model.store.HasOutcome(d.Height, d.Outcome()) {
		return nil
	}
	wanted := outcome{height: d.Height, contributions: d.Contributions, segments: d.Segments}
	data, done, err := o.gatherSoon(ctx, wanted, from)
	defer done()
	if err == nil && o.model.run.AuditSamples == 0 { // else the audit looks, and has a proof
		err = o.model.readable(d.Segments, data, o.model.store.BegunOutcome(d.Height))
	}
	if err != nil {
		return err
	}
	return o.model.store.PutOutcome(d.Height, d.Segments, data)
}

// obtain gets the outcome of a certified record on disk. held is closed when the job that holds the
// same outcome ends; it is nil if none does.
func (o *outcomes) obtain(ctx context.Context, r slot.Record, from []slot.PeerID, held <-chan struct{}) error {
	if o.model.store.HasOutcome(r.Height, r.Outcome()) {
		return nil
	}
	data, done, err := o.gather(ctx, outcome{r.Height, r.Contributions, r.Segments, true, held}, from)
	defer done()
	if o.model.store.HasOutcome(r.Height, r.Outcome()) { // the hold job was faster
		return nil
	}
	if err != nil {
		return err
	}
	return o.model.store.PutOutcome(r.Height, r.Segments, data)
}

// gatherSoon gathers an outcome that other peers are about to have on disk. A draft reaches peers
// outside the reduction as early as those in it.
func (o *outcomes) gatherSoon(ctx context.Context, wanted outcome, from []slot.PeerID) (data []slot.Frames, done func(),
	err error,
) {
	began := time.Now()
	for pause := 50 * time.Millisecond; ; pause *= 2 {
		data, done, err = o.gather(ctx, wanted, from)
		if !errors.Is(err, statesync.ErrNoDonor) || time.Since(began) > o.stall {
			return data, done, err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, done, ctx.Err()
		}
	}
}

// gather collects the bytes of an outcome's segments: those of the reduction that have the right
// root, and the rest from peers. They are lent until done is called, whatever the error is.
func (o *outcomes) gather(ctx context.Context, wanted outcome, from []slot.PeerID) (data []slot.Frames, done func(),
	err error,
) {
	o.awaitReduction(ctx, wanted, from)
	if wanted.certified && o.model.store.HasOutcome(wanted.height, slot.OutcomeRoot(wanted.segments)) {
		return nil, func() {}, nil
	}
	data, fresh, missing, done := o.present(wanted)
	if len(missing) == 0 {
		return data, done, nil
	}
	o.copyAndLend(wanted, data, fresh, done)
	return data, func() {}, o.fetchMissing(ctx, wanted, missing, data, from)
}

// present finds the segments of an outcome that are here: those that are lent, and, until done is
// called, those of the reduction, which are fresh.
func (o *outcomes) present(wanted outcome) (data []slot.Frames, fresh, missing []int, done func()) {
	data = make([]slot.Frames, len(wanted.segments))
	var here []int // not lent already
	for i, s := range wanted.segments {
		if data[i] = o.part(s.Root).Frames(); data[i].Bytes == nil {
			here = append(here, i)
		}
	}
	held, done := o.reductions.hold(wanted.segments, here, o.model.frameBytes)
	for k, i := range here {
		if data[i] = held[k]; data[i].Bytes == nil {
			missing = append(missing, i)
		} else {
			fresh = append(fresh, i)
		}
	}
	return data, fresh, missing, done
}

// copyAndLend copies what is fresh, before done is called, and lends all that is here: what others
// are asked for takes its time, and they ask for what is here.
func (o *outcomes) copyAndLend(wanted outcome, data []slot.Frames, fresh []int, done func()) {
	for _, i := range fresh {
		data[i] = slot.Frames{Bytes: bytes.Clone(data[i].Bytes), Hashes: slices.Clone(data[i].Hashes)}
	}
	done()
	o.lend(wanted, data)
}

// fetchMissing gets the missing segments from peers, at once if all of them can be had, else those
// that can, and says which cannot.
func (o *outcomes) fetchMissing(ctx context.Context, wanted outcome, missing []int, data []slot.Frames,
	from []slot.PeerID,
) error {
	err := o.fetch(ctx, wanted, missing, data, from)
	if err == nil {
		return nil
	}
	if !errors.Is(err, statesync.ErrNoDonor) || len(missing) == 1 {
		return missingError{err, []slot.Range{wanted.segments[missing[0]].Range}}
	}
	var lacking missingError
	for _, i := range missing {
		if err := o.fetch(ctx, wanted, []int{i}, data, from); err != nil {
			lacking.ranges, lacking.error = append(lacking.ranges, wanted.segments[i].Range), err
			continue
		}
		o.lend(wanted, data)
	}
	if lacking.error == nil {
		return nil
	}
	return lacking
}

// fetch gets some segments from peers.
func (o *outcomes) fetch(ctx context.Context, wanted outcome, missing []int, data []slot.Frames,
	from []slot.PeerID,
) error {
	blobs := make([]statesync.Blob, len(missing))
	for k, i := range missing {
		s := wanted.segments[i]
		blobs[k] = statesync.Blob{Root: s.Root, Size: int64(o.model.codec.EncodedSize(int(s.Range.Len())))}
	}
	fetched, _, err := o.client.FetchOutcome(ctx, blobs, o.model.frameBytes(), from)
	if err != nil {
		return err
	}
	for k, i := range missing {
		data[i] = fetched[k]
	}
	return nil
}

// lend offers the segments that are here to other peers until the slot is decided.
func (o *outcomes) lend(wanted outcome, data []slot.Frames) {
	lent := loan{wanted.height, make(map[slot.Root]*statesync.Loan)}
	for i, frames := range data {
		if frames.Bytes == nil {
			continue
		}
		root := wanted.segments[i].Root
		if lent.segments[root] = o.part(root); lent.segments[root] == nil {
			lent.segments[root] = statesync.Lend(frames, o.model.frameBytes())
		}
	}
	o.lent.Store(&lent)
}

// decided ends the loan of an outcome that was decided. That of a later one may have begun: this
// peer is late.
func (o *outcomes) decided(height uint64) {
	if lent := o.lent.Load(); lent != nil && lent.height <= height {
		o.lent.CompareAndSwap(lent, nil)
	}
}

// part returns a lent segment, nil if there is none with this root.
func (o *outcomes) part(root slot.Root) *statesync.Loan {
	if lent := o.lent.Load(); lent != nil {
		return lent.segments[root]
	}
	return nil
}
