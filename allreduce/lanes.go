package allreduce

import (
	"context"
	"slices"
	"sync"
	"time"
)

// lanes has few frames of an engine written at once, so that peers take turns. It is no lock, and
// nobody can keep the others waiting:
//
//   - A frame that waits for its turn goes ahead after a while.
//   - A frame gives its lane back after a shorter while, whether it is written or not: its receiver
//     hangs, or reads little at a time. On a slow uplink all frames take long: so the while is some
//     times what the last frames took.
//   - A stream that kept its lane for so long has its next frames written without one, and four
//     times as many each time that it happens again. So a few slow receivers do not use up all
//     lanes with one frame after the other.
type lanes struct {
	taken chan struct{}
	stall time.Duration
	mu    struct {
		sync.Mutex
		took [16]time.Duration // by the last frames that were written
		next int
	}
}

// lanesAtOnce is how many frames are being written at once: peers of a large group take turns along
// the ring, and no owner is flooded by all at once.
const lanesAtOnce = 4

func newLanes(n int, stall time.Duration) *lanes {
	return &lanes{taken: make(chan struct{}, n), stall: stall}
}

// wait is how long a frame waits for its turn.
func (ls *lanes) wait() time.Duration { return ls.stall / 8 }

// most is how long a frame may keep its lane. A receiver that hardly reads finishes few frames, so
// the median is that of the others.
func (ls *lanes) most() time.Duration {
	ls.mu.Lock()
	took := ls.mu.took
	ls.mu.Unlock()
	slices.Sort(took[:])
	return min(max(4*took[len(took)/2], ls.stall/32), ls.wait())
}

// wrote notes how long a frame took.
func (ls *lanes) wrote(took time.Duration) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	ls.mu.took[ls.mu.next] = took
	ls.mu.next = (ls.mu.next + 1) % len(ls.mu.took)
}

// laneUse is how a stream has used its lanes. Only the goroutine that writes the stream uses it.
type laneUse struct {
	penalty int // frames written without a lane when it last took too long
	without int // of these, frames that are left
}

// turn waits for a turn to write a frame. The returned function, which must be called, says that
// the frame is written.
func (ls *lanes) turn(ctx context.Context, use *laneUse) (done func()) {
	if use.without > 0 {
		use.without--
		return func() {}
	}
	if !ls.acquire(ctx) {
		return func() {}
	}
	giveBack, began := func() { <-ls.taken }, time.Now()
	late := time.AfterFunc(ls.most(), giveBack)
	return func() {
		ls.wrote(time.Since(began))
		if late.Stop() { // it has not been given back
			giveBack()
			return
		}
		use.penalty = max(4, 4*use.penalty)
		use.without = use.penalty
	}
}

// acquire waits for a lane, and is false if there is none for too long.
func (ls *lanes) acquire(ctx context.Context) bool {
	select {
	case ls.taken <- struct{}{}:
		return true
	default:
	}
	wait := time.NewTimer(ls.wait())
	defer wait.Stop()
	select {
	case ls.taken <- struct{}{}:
		return true
	case <-wait.C:
	case <-ctx.Done():
	}
	return false
}
