package p2pdiloco

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership"
	"github.com/p2pdiloco/p2pdiloco/membership/statesync"
)

// How the worker gets the bytes of a slot's outcome on disk, and reads them back: from the reduction that this peer takes part
// in, or from peers that have them.

// hold makes the outcome of a draft durable: from the reduction, and what that lacks from other peers.
func (w *worker) hold(ctx context.Context, work membership.WorkHold) error {
	d := work.Draft
	if d.Kind == slot.Access && w.keys != nil {
		return w.keys.holdKey(ctx, d.Key, work.From, removedBy(d)...)
	}
	if d.Kind != slot.Step || w.store.HasOutcome(d.Height, d.Outcome()) {
		return nil
	}
	data, err := w.gatherSoon(ctx, outcomeOf{height: d.Height, contributions: d.Contributions, segments: d.Segments}, work.From)
	if err != nil {
		return err
	}
	return w.store.PutOutcome(d.Height, d.Segments, func(i int) []byte { return data[i] })
}

// gatherSoon gathers what others are just about to have on disk: a draft reaches those who were not in the reduction no later
// than those who were.
func (w *worker) gatherSoon(ctx context.Context, o outcomeOf, from []PeerID) ([][]byte, error) {
	began := time.Now()
	for pause := 50 * time.Millisecond; ; pause *= 2 {
		data, err := w.gather(ctx, o, from)
		if !errors.Is(err, statesync.ErrNoDonor) || time.Since(began) > w.stall {
			return data, err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// outcomeOf is what a draft and a record both say of an outcome.
type outcomeOf struct {
	height        uint64
	contributions []slot.Offer
	segments      []slot.Segment
	certified     bool            // a quorum has it on disk
	held          <-chan struct{} // closed when the job that holds it ends; nil if none is at it
}

// missingError says which segments nobody gave.
type missingError struct {
	ranges []slot.Range
	err    error
}

func (e missingError) Error() string { return e.err.Error() }
func (e missingError) Unwrap() error { return e.err }

// gather collects the bytes of an outcome's segments: those of the reduction that have the right root, the rest from peers. What
// it has is there for others meanwhile: where connections failed here and there, it may be that nobody has all.
func (w *worker) gather(ctx context.Context, o outcomeOf, from []PeerID) ([][]byte, error) {
	if w.awaitReduction(ctx, o); o.certified && w.store.HasOutcome(o.height, slot.OutcomeRoot(o.segments)) {
		return nil, nil
	}
	data := make([][]byte, len(o.segments))
	var missing []int
	for i, s := range o.segments {
		if data[i] = w.reduced(s); data[i] == nil {
			missing = append(missing, i)
		}
	}
	if len(missing) == 0 {
		return data, nil
	}
	w.lend(o, data)
	err := w.fetch(ctx, o, missing, data, from)
	if errors.Is(err, statesync.ErrNoDonor) && len(missing) > 1 {
		err = w.fetchEach(ctx, o, missing, data, from)
	} else if err != nil {
		err = missingError{[]slot.Range{o.segments[missing[0]].Range}, err}
	}
	return data, err
}

// fetch gets some segments from peers.
func (w *worker) fetch(ctx context.Context, o outcomeOf, missing []int, data [][]byte, from []PeerID) error {
	wanted := make([]statesync.Blob, len(missing))
	for k, i := range missing {
		s := o.segments[i]
		wanted[k] = statesync.Blob{Root: s.Root, Size: int64(w.outcome.EncodedSize(int(s.Range.Len())))}
	}
	fetched, _, err := w.client.FetchOutcome(ctx, wanted, w.frameBytes, from)
	if err != nil {
		return err
	}
	for k, i := range missing {
		data[i] = fetched[k]
	}
	return nil
}

// fetchEach gets what can be had, and says what cannot.
func (w *worker) fetchEach(ctx context.Context, o outcomeOf, missing []int, data [][]byte, from []PeerID) error {
	var lacking missingError
	for _, i := range missing {
		if err := w.fetch(ctx, o, []int{i}, data, from); err != nil {
			lacking.ranges, lacking.err = append(lacking.ranges, o.segments[i].Range), err
			continue
		}
		w.lend(o, data)
	}
	if lacking.err == nil {
		return nil
	}
	return lacking
}

// lend has the segments that are here served to others until the slot is decided.
func (w *worker) lend(o outcomeOf, data [][]byte) {
	parts := make(map[Root][]byte)
	for i, b := range data {
		if b != nil {
			parts[o.segments[i].Root] = b
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mu.parts = parts
}

// part is a segment that is lent.
func (w *worker) part(root Root) []byte {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.mu.parts[root]
}

// An owner that states its ranges and then drips their bytes would keep all who wait for them. Whoever has waited for a draft's bytes for
// so many stalls, and so many times as long as the reduction had taken by then, asks the others: if nobody has them, the owner is
// to blame.
const (
	drippedStalls = 8
	drippedFactor = 4 // for a slow link the reduction was slow, too
)

// Once a quorum has the bytes, the reduction has a stall, and a part of the time that it has taken, to bring the last of them: those on slow
// links lack little then, and what drips is fetched elsewhere.
const certifiedPart = 4

// patience is how long the reduction may take from now on, which has run for so long.
func (w *worker) patience(o outcomeOf, ran time.Duration) time.Duration {
	if o.certified {
		return w.stall + ran/certifiedPart
	}
	return drippedStalls*w.stall + drippedFactor*ran
}

// awaitReduction waits for what the running reduction will bring anyway: a draft overtakes the last frames to some members. It
// waits as long as something comes, within limits.
func (w *worker) awaitReduction(ctx context.Context, o outcomeOf) {
	w.mu.Lock()
	r, began := w.mu.reduction, w.mu.reducing
	w.mu.Unlock()
	listed := slices.ContainsFunc(o.contributions, func(c slot.Offer) bool { return c.Peer == w.self })
	if r == nil || r.Plan().Height != o.height || !listed {
		return
	}
	end := time.NewTimer(w.patience(o, time.Since(began)))
	defer end.Stop()
	tick := time.NewTicker(w.stall)
	defer tick.Stop()
	for _, had := r.Traffic(); ; {
		select {
		case <-r.Settled():
			return
		case <-o.held:
			return
		case <-tick.C:
		case <-end.C:
			return
		case <-ctx.Done():
			return
		}
		_, now := r.Traffic()
		if now == had {
			return
		}
		had = now
	}
}

// reduced is a copy of a segment as the running reduction has it; nil if it has it not.
func (w *worker) reduced(s slot.Segment) []byte {
	if b := w.part(s.Root); b != nil {
		return b
	}
	w.mu.Lock()
	r := w.mu.reduction
	w.mu.Unlock()
	if r == nil {
		return nil
	}
	b, ok := r.Copy(s.Range)
	if !ok || slot.FrameRoot(slot.FrameHashes(b, w.frameBytes), w.frameBytes, uint64(len(b))) != s.Root {
		return nil
	}
	return b
}

// obtain gets a certified outcome on disk, if it is not.
func (w *worker) obtain(ctx context.Context, record slot.Record, from []PeerID) error {
	if w.store.HasOutcome(record.Height, record.Outcome()) {
		return nil
	}
	data, err := w.gather(ctx, outcomeOf{
		height: record.Height, contributions: record.Contributions, segments: record.Segments, certified: true,
		held: w.jobs.done("hold", holdName(record.Height, record.Prev, record.Outcome())),
	}, from)
	if w.store.HasOutcome(record.Height, record.Outcome()) { // the hold job, which was at it already, was faster
		return nil
	}
	if err != nil {
		return err
	}
	return w.store.PutOutcome(record.Height, record.Segments, func(i int) []byte { return data[i] })
}

// decode fills grad with an outcome held on disk: the bytes that everybody decodes, the owners included.
func (w *worker) decode(record slot.Record, grad []float32) error {
	outcome, err := w.store.Outcome(record.Height, record.Outcome())
	if err != nil {
		return err
	}
	var b []byte
	for i, s := range record.Segments {
		if b, err = outcome.Read(i, b); err != nil {
			return err
		}
		if err = w.outcome.Decode(grad[s.Range.Begin:s.Range.End], b); err != nil {
			return fmt.Errorf("outcome of slot %d: %w", record.Slot, err)
		}
	}
	return nil
}
