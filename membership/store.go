package membership

import (
	"errors"
	"fmt"
	"sync"

	"github.com/p2pdiloco/p2pdiloco/internal/disk"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// Why a store cannot be opened or written.
var (
	ErrStoreLocked  = disk.ErrLocked
	ErrStoreForeign = errors.New("not a ledger log of this program")
	ErrStoreRun     = errors.New("the data directory belongs to another run")
	ErrStoreCorrupt = errors.New("the ledger log is damaged")
	ErrPowerCut     = errors.New("simulated power cut")

	// errTorn: the last write did not reach the disk whole. Nothing was sent on the strength of it, so it may be cut off.
	errTorn = errors.New("torn end")
)

// MemoryStore is a Store without a disk, for tests and simulations. It survives as long as the value does: Restart stands for
// a process that starts again on the same directory, and only what was saved is there.
type MemoryStore struct {
	mu struct {
		sync.Mutex
		state  *ledgerState
		saves  int // left before the power cut, if cut
		cut    bool
		closed bool
	}
}

// NewMemoryStore makes an empty store. inc must be unlike that of any other store in the run.
func NewMemoryStore(run slot.Root, inc slot.Incarnation) *MemoryStore {
	s := &MemoryStore{}
	s.mu.state = newLedgerState(run, inc)
	s.mu.state.boot = 1
	return s
}

// CutAfter lets n more calls of Save succeed; from then on all fail with ErrPowerCut and save nothing.
func (s *MemoryStore) CutAfter(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.saves, s.mu.cut = n, true
}

// Restart makes this store fail from now on, as a dead process would, and opens another on what it had saved.
func (s *MemoryStore) Restart() *MemoryStore {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.saves, s.mu.cut = 0, true
	next := &MemoryStore{}
	next.mu.state = newLedgerState(s.mu.state.run, s.mu.state.inc)
	for _, e := range s.mu.state.compacted() {
		if err := next.mu.state.apply(e); err != nil {
			panic(fmt.Sprintf("membership: a store's own entries do not fit: %v", err))
		}
	}
	next.mu.state.boot++
	return next
}

// Load implements Store.
func (s *MemoryStore) Load() (Saved, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.state.saved(), nil
}

// Save implements Store.
func (s *MemoryStore) Save(entries []Entry) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.mu.closed:
		return errStoreClosed
	case s.mu.cut && s.mu.saves == 0:
		return ErrPowerCut
	case s.mu.cut:
		s.mu.saves--
	}
	for _, e := range entries {
		if err := s.mu.state.apply(e); err != nil {
			return err
		}
	}
	return nil
}

// Close implements Store. The entries stay for Restart.
func (s *MemoryStore) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.closed = true
	return nil
}
