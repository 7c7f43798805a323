package formation

import (
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/spec"
)

// A spec that names one founder is worth nothing to others before that peer has founded the run: if
// it dies first, nobody else may. So its hello says that the run is not founded yet. Others wait
// for such a peer as long as it answers, and adopt its spec once the run is founded.

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
	return s.Byzantine() && len(s.Founders) == 1 && s.Founders[0] == f.cfg.Network.ID()
}

// notePromise notes that a peer is about to found its run; mu is held.
func (f *Formation) notePromise(p slot.PeerID, encoded []byte) {
	_, known := f.mu.promises[p]
	if !known && len(f.mu.promises) >= maxKnown {
		return
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

// awaitsFounder says whether a peer is about to found the run; mu is held.
func (f *Formation) awaitsFounder() bool {
	return f.fresh(f.lastPromise())
}

// lastPromise is when a peer has said last that it is about to found the run; mu is held.
func (f *Formation) lastPromise() (last time.Time) {
	for _, given := range f.mu.promises {
		if given.at.After(last) {
			last = given.at
		}
	}
	return last
}
