package formation

import (
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/spec"
)

// A spec that names one founder is worth nothing to others before that peer has founded the run: if
// it dies first, nobody else may. So its hello says that the run is not founded yet. Others wait
// for such a peer while it answers, and adopt its spec once the run is founded.

// promiseWait bounds the wait for one such peer, from its first word on: anybody may say so of
// itself, and never found a run. Making the initial state of a large model durable takes minutes.
// The bound is of each peer: one that founds after another has broken its word would else be
// waited for by nobody, and all would found runs of their own. So somebody with many IDs can hold
// up a founding for longer; an operator ends that with --found.
const promiseWait = 10 * time.Minute

// promise is the word of a peer that it is about to found the run of a spec.
type promise struct {
	spec  slot.Root // hash of its bytes
	since time.Time // of the first hello that said so, whatever the spec
	at    time.Time // of its last hello
	told  bool      // a warning was logged that it is not waited for any more
}

// ends is when the peer will have been waited for as long as it may be.
func (p promise) ends() time.Time { return p.since.Add(promiseWait) }

// broken says whether the peer was given its time. It is remembered, or it would get it again.
func (p promise) broken() bool { return !time.Now().Before(p.ends()) }

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
	given, known := f.mu.promises[p]
	if !known && len(f.mu.promises) >= maxKnown {
		return
	}
	given.spec, given.at = slot.Hash(encoded), time.Now()
	if !known {
		given.since = given.at
		f.log.Info("a peer is about to found this run: waiting for that", "peer", p)
	}
	f.mu.promises[p] = given
}

// promised says whether a peer repeats what it has said before; mu is held.
func (f *Formation) promised(p slot.PeerID, encoded []byte) bool {
	known, ok := f.mu.promises[p]
	return ok && known.spec == slot.Hash(encoded)
}

// counts says whether a promise holds up the others.
func (f *Formation) counts(p promise) bool { return !p.broken() && f.fresh(p.at) }

// awaitsFounder says whether a peer is about to found the run. It warns once of each peer that has
// had its time; mu is held.
func (f *Formation) awaitsFounder() (waits bool) {
	for p, given := range f.mu.promises {
		waits = waits || f.counts(given)
		if given.broken() && f.fresh(given.at) && !given.told {
			given.told = true
			f.mu.promises[p] = given
			f.log.Warn("a peer said that it is about to found this run, and has not done so: not waiting for it any "+
				"more", "peer", p, "waited", promiseWait)
		}
	}
	return waits
}

// lastPromise is when this peer has last waited for one that is about to found the run. From then
// on the peers that have waited look who has the lowest ID; mu is held.
func (f *Formation) lastPromise() (last time.Time) {
	for _, given := range f.mu.promises {
		heard := given.at
		if end := given.ends(); heard.After(end) {
			heard = end
		}
		if heard.After(last) {
			last = heard
		}
	}
	return last
}
