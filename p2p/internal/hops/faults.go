package hops

import (
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
)

const (
	faultTerm  = time.Minute // for which a forwarder that failed once is asked last
	mostFaults = 6           // in a row that make that longer, each twice as long
	// terms after the end of the newest one within which a fault counts as the next in a row
	faultMemo = 4
	maxFaults = 1024 // forwarders that failed and are remembered
)

// faults are the forwarders that failed lately. One that fails again and again costs each time what
// a stream takes to run out of time: so it is asked ever more seldom.
type faults struct {
	mu struct {
		sync.Mutex
		of map[peer.ID]fault
	}
}

// fault is the newest one of a forwarder.
type fault struct {
	at    time.Time
	inRow int
}

func newFaults() *faults {
	f := &faults{}
	f.mu.of = make(map[peer.ID]fault)
	return f
}

// term is for how long the forwarder is asked last.
func (f fault) term() time.Duration { return faultTerm << (f.inRow - 1) }

// note takes in that a forwarder has failed. Streams that fail within a term are one fault: many
// fail at once.
func (f *faults) note(via peer.ID, now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	old, known := f.mu.of[via]
	if !known && len(f.mu.of) >= maxFaults {
		clear(f.mu.of)
	}
	switch since := now.Sub(old.at); {
	case known && since < old.term():
		f.mu.of[via] = fault{now, old.inRow}
	case known && since < (1+faultMemo)*old.term():
		f.mu.of[via] = fault{now, min(old.inRow+1, mostFaults)}
	default:
		f.mu.of[via] = fault{now, 1}
	}
}

// has says whether a forwarder is asked last.
func (f *faults) has(via peer.ID, now time.Time) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	newest, known := f.mu.of[via]
	return known && now.Sub(newest.at) < newest.term()
}
