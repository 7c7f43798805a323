package report

import (
	"sync"
	"time"

	"github.com/p2pdiloco/p2pdiloco/allreduce"
)

// ExchangeStatus is how long the exchange of slots takes.
type ExchangeStatus struct {
	Now  *SlotTime `json:"now,omitempty"`  // the one under way
	Last *SlotTime `json:"last,omitempty"` // the newest that was decided
}

// SlotTime is how long one slot was expected to take, and took.
type SlotTime struct {
	Slot uint64 `json:"slot"`
	// of its bytes, by the links that were measured until then; 0: none was
	Expected time.Duration `json:"expected_ns"`
	Relayed  uint64        `json:"relayed_bytes,omitempty"` // that relays carry, of all members
	// from its first plan to its record, as seen here; 0: it is not decided
	Took time.Duration `json:"took_ns,omitempty"`
}

// slotTimes keeps them.
type slotTimes struct {
	mu struct {
		sync.Mutex
		status ExchangeStatus
		began  time.Time // of Now
	}
}

// planned takes in a slot's plan, or a revision of it.
func (t *slotTimes) planned(slotNumber uint64, e allreduce.Estimate) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if now := t.mu.status.Now; now == nil || now.Slot != slotNumber {
		t.mu.began = time.Now()
	}
	t.mu.status.Now = &SlotTime{Slot: slotNumber, Expected: e.Takes, Relayed: e.Relayed}
}

// decided takes in that a slot has its record.
func (t *slotTimes) decided(slotNumber uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.mu.status.Now
	if now == nil || now.Slot > slotNumber {
		return
	}
	if t.mu.status.Now = nil; now.Slot == slotNumber {
		last := *now
		last.Took = time.Since(t.mu.began)
		t.mu.status.Last = &last
	}
}

func (t *slotTimes) exchange() ExchangeStatus {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.mu.status // what it points to is not changed
}
