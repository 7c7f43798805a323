package report

import (
	"slices"
	"sync"
)

// LostTerms are the terms whose leaders brought no record, by the certificates that have come since
// this process started.
type LostTerms struct {
	Terms uint64   `json:"terms"`
	Slots []uint64 `json:"slots,omitempty"` // the newest in which there were any, the oldest first
}

// maxLostSlots bounds LostTerms.Slots.
const maxLostSlots = 5

// lostTerms keeps them.
type lostTerms struct {
	mu struct {
		sync.Mutex
		lost LostTerms
	}
}

// certified takes in a record of a slot, which was certified after so many terms.
func (l *lostTerms) certified(slotNumber uint64, terms uint32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	lost := &l.mu.lost
	if lost.Terms += uint64(terms); terms == 0 || slices.Contains(lost.Slots, slotNumber) {
		return
	}
	// a new list, because status keeps the old one
	lost.Slots = append(slices.Clone(lost.Slots[max(0, len(lost.Slots)+1-maxLostSlots):]), slotNumber)
}

func (l *lostTerms) terms() LostTerms {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.lost
}
