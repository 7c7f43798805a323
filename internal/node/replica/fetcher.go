package replica

import (
	"context"
	"slices"
	"sync"

	"github.com/p2pdiloco/p2pdiloco/internal/checkpoint"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership"
	"github.com/p2pdiloco/p2pdiloco/membership/statesync"
)

// FetchStatus says how far the fetch of a state is.
type FetchStatus struct {
	Bytes   int64           // of the state that are here, verified
	Total   int64           // 0 until a donor of a state is known
	Dropped []statesync.Bad // they died, stalled or sent wrong bytes
}

// fetcher gets a state that this peer did not make itself from other peers.
type fetcher struct {
	client *statesync.Client
	emit   func(name string, fields map[string]any)

	mu struct {
		sync.Mutex
		status *FetchStatus // nil while no state is fetched
	}
}

func newFetcher(open statesync.Opener, cfg statesync.Config, emit func(name string, fields map[string]any)) *fetcher {
	f := &fetcher{emit: emit}
	cfg.OnDrop = f.dropped
	f.client = statesync.NewClient(open, cfg)
	return f
}

// fetch gets one of the states that work names into the store. donors says which peers to ask.
func (f *fetcher) fetch(ctx context.Context, store *checkpoint.Store, work membership.WorkSync,
	donors func() []slot.PeerID,
) (checkpoint.Checkpoint, statesync.Report, error) {
	targets := make([]statesync.Target, len(work.Roots))
	for i, r := range work.Roots {
		targets[i] = statesync.Target{Height: r.Height, Slot: r.Slot, Root: r.Root}
	}
	return f.client.FetchState(ctx, store, targets, donors, f.progressed)
}

// show sets the status that is shown; nil ends it.
func (f *fetcher) show(s *FetchStatus) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.status = s
}

// status returns how far the fetch of a state is, nil if there is none.
func (f *fetcher) status() *FetchStatus {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.mu.status == nil {
		return nil
	}
	s := *f.mu.status
	s.Dropped = slices.Clone(s.Dropped)
	return &s
}

// progressed takes in every piece of a state that has come.
func (f *fetcher) progressed(done, total int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.mu.status != nil {
		f.mu.status.Bytes, f.mu.status.Total = done, total
	}
}

// dropped takes in every donor, of a state or an outcome, that is not asked again in a fetch.
func (f *fetcher) dropped(b statesync.Bad) {
	f.mu.Lock()
	if f.mu.status != nil {
		f.mu.status.Dropped = append(f.mu.status.Dropped, b)
	}
	f.mu.Unlock()
	f.emit("donor.dropped", map[string]any{"about": b.Peer, "reason": b.Reason, "lied": b.Lied})
}
