//go:build unix

package attachtest

import (
	"slices"
	"sync"

	"github.com/p2pdiloco/p2pdiloco/bridge/attach/wire"
)

// seen is what a test may ask of a Rank while it runs.
type seen struct {
	mu    sync.Mutex
	loads []wire.Load
}

// Loads are the LOADs so far.
func (r *Rank) Loads() []wire.Load {
	r.seen.mu.Lock()
	defer r.seen.mu.Unlock()
	return slices.Clone(r.seen.loads)
}

func (s *seen) load(m wire.Load) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.loads = append(s.loads, m)
}
