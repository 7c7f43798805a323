package p2pdiloco

import (
	"bytes"
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
	if d.Kind != slot.Step || w.store.HasOutcome(d.Height, d.Outcome()) {
		return nil
	}
	data, err := w.gatherSoon(ctx, outcomeOf{d.Height, d.Contributions, d.Segments}, work.From)
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
}

// gather collects the bytes of an outcome's segments: those of the reduction that have the right root, the rest from peers.
func (w *worker) gather(ctx context.Context, o outcomeOf, from []PeerID) ([][]byte, error) {
	w.awaitReduction(ctx, o)
	data := make([][]byte, len(o.segments))
	var missing []int
	var wanted []statesync.Blob
	for i, s := range o.segments {
		if b, ok := w.reduced(s); ok {
			data[i] = b
			continue
		}
		missing = append(missing, i)
		wanted = append(wanted, statesync.Blob{Root: s.Root, Size: int64(w.codec.EncodedSize(int(s.Range.Len())))})
	}
	if len(missing) == 0 {
		return data, nil
	}
	fetched, _, err := w.client.FetchOutcome(ctx, wanted, w.frameBytes, from)
	if err != nil {
		return nil, err
	}
	for k, i := range missing {
		data[i] = fetched[k]
	}
	return data, nil
}

// awaitReduction waits for what the running reduction will bring anyway: a draft overtakes the last frames to some members.
// Where a peer is lost, or this one was left out meanwhile, it never completes; then what is missing is fetched.
func (w *worker) awaitReduction(ctx context.Context, o outcomeOf) {
	w.mu.Lock()
	r := w.mu.reduction
	w.mu.Unlock()
	listed := slices.ContainsFunc(o.contributions, func(c slot.Offer) bool { return c.Peer == w.self })
	if r == nil || r.Plan().Height != o.height || !listed {
		return
	}
	late := time.NewTimer(w.stall)
	defer late.Stop()
	select {
	case <-r.Complete():
	case <-late.C:
	case <-ctx.Done():
	}
}

// reduced is a segment's bytes as the running reduction has them; a copy, since the reduction may end meanwhile.
func (w *worker) reduced(s slot.Segment) ([]byte, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.mu.reduction == nil {
		return nil, false
	}
	b, ok := w.mu.reduction.Result(s.Range)
	if !ok || slot.FrameRoot(slot.FrameHashes(b, w.frameBytes), w.frameBytes, uint64(len(b))) != s.Root {
		return nil, false
	}
	return bytes.Clone(b), true
}

// obtain gets a certified outcome on disk, if it is not.
func (w *worker) obtain(ctx context.Context, record slot.Record, from []PeerID) error {
	if w.store.HasOutcome(record.Height, record.Outcome()) {
		return nil
	}
	data, err := w.gather(ctx, outcomeOf{record.Height, record.Contributions, record.Segments}, from)
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
		if err = w.codec.Decode(grad[s.Range.Begin:s.Range.End], b); err != nil {
			return fmt.Errorf("outcome of slot %d: %w", record.Slot, err)
		}
	}
	return nil
}
