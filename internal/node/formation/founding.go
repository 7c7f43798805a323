package formation

import (
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/spec"
)

// A spec that names one founder is worth nothing to others before that peer has founded the run: if
// it dies first, nobody else may. So its hello says that the run is not founded yet. Others wait
// for such a peer while it answers, and adopt its spec once the run is founded.

// promiseWait bounds the wait for all such peers together, from the first one on: anybody may say
// so of itself, and never found a run. Making the initial state of a large model durable takes
// minutes.
const promiseWait = 10 * time.Minute

// promise is the word of a peer that it is about to found the run of a spec.
type promise struct {
	spec slot.Root // hash of its bytes
	at   time.Time // of its last hello
}

// Unfounded says whether this peer alone may found the run of the settled spec, as long as Founded
// was not called.
func (f *Formation) Unfounded() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.mu.unfounded
}

// Founded takes in that the run has a first record, and tells all known peers.
func (f *Formation) Founded() {
	f.mu.Lock()
	was := f.mu.unfounded
	f.mu.unfounded = false
	f.mu.Unlock()
	if was {
		close(f.founded)
	}
}

// isMine says whether this peer alone may found the run of a spec.
func (f *Formation) isMine(s spec.Spec) bool {
	return len(s.Founders) == 1 && isOf(s, f.cfg.Network.ID())
}

// isOf says whether a peer alone may found the run of a spec. Only such a peer promises to.
func isOf(s spec.Spec, p slot.PeerID) bool {
	return s.Byzantine() && len(s.Founders) == 1 && s.Founders[0] == p
}

// notePromise notes that a peer is about to found its run; mu is held.
func (f *Formation) notePromise(p slot.PeerID, encoded []byte) {
	_, known := f.mu.promises[p]
	if !known && len(f.mu.promises) >= maxKnown || f.waitedOut() {
		return
	}
	if f.mu.promisedSince.IsZero() {
		f.mu.promisedSince = time.Now()
	}
	f.mu.promises[p] = promise{slot.Hash(encoded), time.Now()}
	if !known {
		f.log.Info("a peer is about to found this run: waiting for that", "peer", p)
	}
}

// promised says whether a peer repeats what it has said before; mu is held.
func (f *Formation) promised(p slot.PeerID, encoded []byte) bool {
	known, ok := f.mu.promises[p]
	return ok && known.spec == slot.Hash(encoded)
}

// waitedOut says whether promises count no more, and says so once; mu is held.
func (f *Formation) waitedOut() bool {
	since := f.mu.promisedSince
	out := !since.IsZero() && time.Since(since) >= promiseWait
	if out && len(f.mu.promises) > 0 {
		clear(f.mu.promises)
		f.log.Warn("a peer said that it is about to found this run, and has not done so: not waiting for that any more",
			"waited", promiseWait)
	}
	return out
}

// awaitsFounder says whether a peer is about to found the run; mu is held.
func (f *Formation) awaitsFounder() bool { return !f.waitedOut() && f.fresh(f.lastPromise()) }

// lastPromise is when a peer has said last that it is about to found the run; mu is held.
func (f *Formation) lastPromise() (last time.Time) {
	for _, given := range f.mu.promises {
		if given.at.After(last) {
			last = given.at
		}
	}
	return last
}
