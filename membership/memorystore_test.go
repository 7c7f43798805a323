package membership

import (
	"errors"
	"fmt"
	"sync"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

var errPowerCut = errors.New("simulated power cut")

// memoryStore is a Store without a disk, for tests and simulations. It survives as long as the value does: Restart stands for
// a process that starts again on the same directory, and only what was saved is there.
type memoryStore struct {
	mu struct {
		sync.Mutex
		state  *ledgerState
		saves  int // left before the power cut, if cut
		cut    bool
		closed bool
	}
}

// newMemoryStore makes an empty store. inc must be unlike that of any other store in the run.
func newMemoryStore(run slot.Root, inc slot.Incarnation) *memoryStore {
	s := &memoryStore{}
	s.mu.state = newLedgerState(run, inc)
	s.mu.state.boot = 1
	return s
}

// CutAfter lets n more calls of Save succeed; from then on all fail with errPowerCut and save nothing.
func (s *memoryStore) CutAfter(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.saves, s.mu.cut = n, true
}

// Restart makes this store fail from now on, as a dead process would, and opens another on what it had saved.
func (s *memoryStore) Restart() *memoryStore {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.saves, s.mu.cut = 0, true
	next := &memoryStore{}
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
func (s *memoryStore) Load() (Saved, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.state.saved(), nil
}

// Save implements Store.
func (s *memoryStore) Save(entries []Entry) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.mu.closed:
		return errStoreClosed
	case s.mu.cut && s.mu.saves == 0:
		return errPowerCut
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
func (s *memoryStore) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.closed = true
	return nil
}
