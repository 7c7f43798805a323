package statesync

import (
	"context"
	"errors"
	"fmt"

	"github.com/p2pdiloco/p2pdiloco/internal/checkpoint"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// FetchState fetches one of the wanted states into the store, where it becomes a checkpoint, and
// reports which donors it came from. It prefers a state that an earlier fetch of this process has
// begun, then the newest one that enough peers hold (survey.best). A state whose donors turn out
// slow gives way to one that others give much sooner (lookout.go). A fetch that does not end leaves
// its pieces in the store, and the next one takes them up as long as that state is wanted and held
// by somebody.
//
// from lists peers that may hold states, without this one. It is called again and again, and its
// list may grow while the fetch runs. progress, if not nil, is called with the number of bytes of
// the state that are there. The size of the state follows from the store's shape; no size that a
// donor sends is allocated.
//
// ErrNoDonor is wrapped when no peer gives any wanted state. The report names the peers that were
// dropped.
func (c *Client) FetchState(
	ctx context.Context, store *checkpoint.Store, want []Target, from func() []slot.PeerID,
	progress func(done, total int64),
) (checkpoint.Checkpoint, Report, error) {
	f := stateFetch{
		transfer: c.begin(from), store: store, size: store.Shape().Size(), progress: progress,
		begun: map[slot.Root]bool{},
	}
	for _, t := range want {
		if store.Begun(checkpoint.Checkpoint{Height: t.Height, Root: t.Root}) {
			f.begun[t.Root] = true
		}
	}
	f.want = byPreference(want, f.begun)
	got, err := f.run(ctx)
	return got, f.end(), err
}

type stateFetch struct {
	*transfer
	store    *checkpoint.Store
	size     int64    // of the state, in bytes
	want     []Target // in the order of preference
	begun    map[slot.Root]bool
	progress func(done, total int64)
}

// run tries one target after the other. A state may be pruned, or its holders may die, while it is
// fetched.
func (f *stateFetch) run(ctx context.Context) (checkpoint.Checkpoint, error) {
	if len(f.want) == 0 {
		return checkpoint.Checkpoint{}, f.noDonor("no state is certified yet")
	}
	var errs []error
	for len(f.want) > 0 {
		s := survey{transfer: f.transfer, size: f.size, want: f.want, begun: f.begun}
		t, err := s.run(ctx)
		if err != nil {
			return checkpoint.Checkpoint{}, errors.Join(append(errs, err)...)
		}
		got, err := f.fetch(ctx, t, &s)
		if err == nil || !errors.Is(err, ErrNoDonor) {
			return got, err
		}
		errs = append(errs, err)
		f.want = without(f.want, t)
	}
	return checkpoint.Checkpoint{}, errors.Join(errs...)
}

// without returns the states that have another root.
func without(want []Target, t Target) (others []Target) {
	for _, o := range want {
		if o.Root != t.Root {
			others = append(others, o)
		}
	}
	return others
}

// fetch fetches one state from all peers but those that are known to lack it.
func (f *stateFetch) fetch(ctx context.Context, t Target, s *survey) (checkpoint.Checkpoint, error) {
	f.begun = nil // Create removes what is here of other states
	file, err := f.store.Create(checkpoint.Checkpoint{Height: t.Height, Slot: t.Slot, Root: t.Root})
	if err != nil {
		return checkpoint.Checkpoint{}, err
	}
	pieces := chunks(file, t.Root, f.size)
	done := f.size
	for _, p := range pieces {
		done -= p.size
	}
	f.Resumed = done
	w := &swarm{transfer: f.transfer, pieces: pieces, rested: map[slot.PeerID]bool{}}
	w.claiming, w.lacking = s.sides(t)
	w.stored = func(p *piece) {
		done += p.size
		if f.progress != nil {
			f.progress(done, f.size)
		}
	}
	if others := without(f.want, t); len(others) > 0 {
		l := newLookout(w, others, f.size, done)
		w.outpaced = func(ctx context.Context) bool { return l.outpaced(ctx, done) }
	} else {
		w.patience = patience // there is nothing else to turn to
	}
	if err := w.run(ctx, fmt.Sprintf("the state of slot %d", t.Slot)); err != nil {
		file.Keep() // for the next try
		return checkpoint.Checkpoint{}, err
	}
	return file.Adopt()
}

// chunks cuts a state into about 64 pieces, so that several donors have a part in a small one, but
// into more where a piece would exceed maxChunk. It leaves out the pieces that an earlier fetch has
// left.
func chunks(file *checkpoint.Partial, root slot.Root, size int64) (pieces []*piece) {
	step := chunkBytes(size)
	for offset := int64(0); offset < size; offset += step {
		if file.Has(offset, min(step, size-offset)) {
			continue
		}
		pieces = append(pieces, &piece{
			size:  min(step, size-offset),
			fetch: func(c *conn, dst []byte) (int, error) { return c.chunk(dst, root, size, offset) },
			store: func(b []byte) error { _, err := file.WriteAt(b, offset); return err },
		})
	}
	return pieces
}

// chunkBytes is the size of the pieces of a state.
func chunkBytes(size int64) int64 {
	const unit = checkpoint.GroupBytes
	return min(max((size/64+unit-1)/unit*unit, unit), maxChunk)
}
