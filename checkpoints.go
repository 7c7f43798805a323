package p2pdiloco

import (
	"context"
	"slices"

	"github.com/p2pdiloco/p2pdiloco/internal/checkpoint"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership"
	"github.com/p2pdiloco/p2pdiloco/membership/statesync"
)

// How the worker comes by a state that it did not make itself, and keeps those that it has.

// synchronize fetches a checkpoint that the chain certifies and makes it the state.
func (w *worker) synchronize(ctx context.Context, work membership.WorkSync) error {
	targets, records := make([]statesync.Target, len(work.Roots)), make(map[uint64]Root, len(work.Roots))
	for i, r := range work.Roots {
		targets[i], records[r.Height] = statesync.Target{Height: r.Height, Slot: r.Slot, Root: r.Root}, r.Record
	}
	w.showSync(&SyncStatus{})
	defer w.showSync(nil)
	got, fetched, err := w.client.FetchState(ctx, w.store, targets, func() []PeerID { return w.donors(work.From) }, w.progressed)
	if err != nil {
		return err
	}
	err = w.state.replace(func(vectors [][]float32) (position, error) {
		return position{got.Height, records[got.Height], got.Slot, got.Root}, w.store.Load(got, vectors...)
	})
	if err != nil {
		return err
	}
	w.feedback.forgive()
	w.emit("state.synced", map[string]any{
		"slot": got.Slot, "height": got.Height, "bytes": fetched.Bytes, "resumed": fetched.Resumed, "sources": sources(fetched), "state_root": got.Root,
	})
	return nil
}

// donors are the peers known to hold states when the work was given, and the members of now: others may have joined since.
func (w *worker) donors(from []PeerID) []PeerID {
	all := slices.Clone(from)
	for _, p := range w.members() {
		if p != w.self && !slices.Contains(all, p) {
			all = append(all, p)
		}
	}
	return all
}

// sources are the bytes that each donor gave.
func sources(r statesync.Report) map[string]int64 {
	m := make(map[string]int64, len(r.Sources))
	for p, n := range r.Sources {
		m[p.String()] = n
	}
	return m
}

func (w *worker) showSync(s *SyncStatus) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mu.sync = s
}

// syncing is how far the fetch of a state is, nil if there is none.
func (w *worker) syncing() *SyncStatus {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.mu.sync == nil {
		return nil
	}
	s := *w.mu.sync
	s.Dropped = slices.Clone(s.Dropped)
	return &s
}

// progressed is told of every piece of a state that has come.
func (w *worker) progressed(done, total int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.mu.sync != nil {
		w.mu.sync.Bytes, w.mu.sync.Total = done, total
	}
}

// dropped is told of every donor, of a state or an outcome, that is not asked again in a fetch.
func (w *worker) dropped(b statesync.Bad) {
	w.mu.Lock()
	if w.mu.sync != nil {
		w.mu.sync.Dropped = append(w.mu.sync.Dropped, DroppedDonor{b.Peer, b.Reason})
	}
	w.mu.Unlock()
	w.emit("donor.dropped", map[string]any{"about": b.Peer, "reason": b.Reason, "lied": b.Lied})
}

// reducing says whether a reduction runs here that is not complete.
func (w *worker) reducing() bool {
	w.mu.Lock()
	r := w.mu.reduction
	w.mu.Unlock()
	if r == nil {
		return false
	}
	select {
	case <-r.Complete():
		return false
	default:
		return true
	}
}

// save makes a checkpoint and drops what newer ones make needless. A failure is told and tried again with the next slot:
// nothing agreed is lost by it, since the outcomes since the last checkpoint stay.
func (w *worker) save() {
	err := w.state.read(func(at position, vectors [][]float32) error {
		if slices.ContainsFunc(w.store.List(), func(c checkpoint.Checkpoint) bool { return c.Root == at.root }) {
			return nil // the records since have left the state as it was
		}
		return w.store.Save(at.height, at.slot, at.root, vectors...)
	})
	if err == nil {
		err = w.store.Prune(checkpoint.Policy{Keep: w.keepStates, Hold: w.spare(), State: w.certifiedState, Outcome: w.certifiedOutcome})
	}
	if err != nil {
		w.log.Error("checkpoint failed: the older one and the outcomes since are kept", "err", err)
	}
}

// certifiedState is the root of the state after height, if a record names it.
func (w *worker) certifiedState(height uint64) (Root, bool) {
	return certifiedState(height, w.certified)
}

// certifiedState is the root of the state after height: the record after it names it, or the height's own record does, if that is
// no step and left the state as it was.
func certifiedState(height uint64, certified func(height uint64) (membership.Commit, bool)) (Root, bool) {
	if c, ok := certified(height + 1); ok {
		return c.Record.StateRoot, true
	}
	c, ok := certified(height)
	return c.Record.StateRoot, ok && c.Record.Kind != slot.Step
}

// record is the hash of the record at a height of this node's chain; zero if it has none there.
func (w *worker) record(height uint64) Root {
	if height == 0 {
		return slot.Genesis(w.spec.RunID()).Hash()
	}
	if c, ok := w.certified(height); ok {
		return c.Record.Hash()
	}
	return Root{}
}

func (w *worker) certifiedOutcome(height uint64) (Root, bool) {
	c, ok := w.certified(height)
	return c.Record.Outcome(), ok
}

// spare keeps what others are fetching for some checkpoints longer than this peer needs it. Not for ever: whose state takes more slots
// to come than a few could not keep up with the outcomes either, of which each is as large as the anchor.
func (w *worker) spare() checkpoint.Hold {
	return checkpoint.Hold{For: 6 * w.stall, Heights: max(16, 3*uint64(w.keepStates)*w.every)}
}
