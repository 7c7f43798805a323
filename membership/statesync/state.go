package statesync

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/checkpoint"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// Target is a state that would do: the one after the record at Height, whose root a certified record names.
type Target struct {
	Height uint64
	Slot   uint64
	Root   slot.Root
}

// FetchState fetches the newest of the wanted states that somebody holds into the store, where it becomes a checkpoint,
// and reports whom it came from. What a fetch that did not end leaves there is taken up by the next one, as long as that state is
// wanted and held by somebody. from is asked again and again for peers that may hold states, this one not among them; its
// list may grow while the fetch runs. progress, if not nil, is told how many bytes of the state are there. The state's size
// follows from the store's shape; nothing that a donor says is allocated.
//
// ErrNoDonor is wrapped when no wanted state can be had from anybody; who was dropped on the way is in the report.
func (c *Client) FetchState(
	ctx context.Context, store *checkpoint.Store, want []Target, from func() []slot.PeerID, progress func(done, total int64),
) (checkpoint.Checkpoint, Report, error) {
	f := stateFetch{c: c, store: store, size: store.Shape().Size(), from: from, progress: progress}
	f.report.Sources = map[slot.PeerID]int64{}
	f.want = slices.SortedFunc(slices.Values(want), func(a, b Target) int { return cmp.Compare(b.Height, a.Height) })
	f.begun = map[slot.Root]int{}
	for _, t := range want {
		if store.Begun(checkpoint.Checkpoint{Height: t.Height, Root: t.Root}) {
			f.begun[t.Root] = 1
		}
	}
	began := time.Now()
	got, err := f.run(ctx)
	f.report.Elapsed = time.Since(began)
	return got, f.report, err
}

type stateFetch struct {
	c        *Client
	store    *checkpoint.Store
	size     int64    // bytes of the state
	want     []Target // newest first
	from     func() []slot.PeerID
	progress func(done, total int64)
	begun    map[slot.Root]int // 1: a part of it is on disk
	report   Report
}

// run tries one target after the other: a state may be pruned, or its holders may die, while it is fetched.
func (f *stateFetch) run(ctx context.Context) (checkpoint.Checkpoint, error) {
	if len(f.want) == 0 {
		return checkpoint.Checkpoint{}, f.report.noDonor("no state is certified yet")
	}
	var errs []error
	for len(f.want) > 0 {
		t, lacking, err := f.survey(ctx)
		if err != nil {
			return checkpoint.Checkpoint{}, errors.Join(append(errs, err)...)
		}
		got, err := f.fetch(ctx, t, lacking)
		if err == nil || !errors.Is(err, ErrNoDonor) {
			return got, err
		}
		errs = append(errs, err)
		f.want = slices.DeleteFunc(f.want, func(o Target) bool { return o.Root == t.Root })
	}
	return checkpoint.Checkpoint{}, errors.Join(errs...)
}

// fetch fetches one state from all but the peers that are known to lack it.
func (f *stateFetch) fetch(ctx context.Context, t Target, lacking map[slot.PeerID]bool) (checkpoint.Checkpoint, error) {
	file, err := f.store.Create(checkpoint.Checkpoint{Height: t.Height, Slot: t.Slot, Root: t.Root})
	if err != nil {
		return checkpoint.Checkpoint{}, err
	}
	pieces := chunks(file, t.Root, f.size)
	done := f.size
	for _, p := range pieces {
		done -= p.size
	}
	f.report.Resumed = done
	w := &swarm{
		c: f.c, report: &f.report, from: f.from, patience: f.c.cfg.Patience, gone: lacking,
		pieces: pieces,
		fetched: func(p *piece) {
			done += p.size
			if f.progress != nil {
				f.progress(done, f.size)
			}
		},
	}
	if err := w.run(ctx, fmt.Sprintf("the state of slot %d", t.Slot)); err != nil {
		file.Keep() // for the next try, of this process or another
		return checkpoint.Checkpoint{}, err
	}
	return file.Adopt()
}

// chunks cuts a state into pieces: about 64, so that several donors have a part in a small one, but none above maxChunk. Those that
// are on disk from an earlier fetch are left out.
func chunks(file *checkpoint.Partial, root slot.Root, size int64) (pieces []*piece) {
	const unit = checkpoint.GroupBytes
	step := min(max((size/64+unit-1)/unit*unit, unit), maxChunk)
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
