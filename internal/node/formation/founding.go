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
// waited for by nobody, and all would found runs of their own. So somebody with ever new IDs can
// hold up a founding for ever, though not divide it; an operator ends that with --found.
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

// Founded takes in that the run has a first record. Those that search hear of it with their next
// hello.
func (f *Formation) Founded() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.unfounded = false
}

// isMine says whether this peer alone may found the run of a spec.
func (f *Formation) isMine(s spec.Spec) bool {
	return len(s.Founders) == 1 && isOf(s, f.cfg.Network.ID())
}

// isOf says whether a peer alone may found the run of a spec. Only such a peer promises to.
func isOf(s spec.Spec, p slot.PeerID) bool {
	return s.Byzantine() && len(s.Founders) == 1 && s.Founders[0] == p
}

// maxPast is how many peers are remembered that are not waited for any more. Whoever has more
// IDs gains nothing from being forgotten: a new ID does as well.
const maxPast = 4096

// notePromise notes that a peer is about to found its run; mu is held.
func (f *Formation) notePromise(p slot.PeerID, encoded []byte) {
	now := time.Now()
	given, known := f.mu.promises[p]
	if past, ok := f.mu.past[p]; ok {
		if given = past; past.broken() {
			past.spec, past.at = slot.Hash(encoded), now
			f.mu.past[p] = f.warnBroken(p, past)
			f.mu.lastPromise = later(f.mu.lastPromise, past.lastWaited())
			return
		}
	}
	if !known && !f.hasRoom() {
		f.mu.crowded = now
		return
	}
	delete(f.mu.past, p)
	if given.spec, given.at = slot.Hash(encoded), now; given.since.IsZero() {
		given.since = now
		f.log.Info("a peer is about to found this run: waiting for that", "peer", p)
	}
	f.mu.promises[p] = given
}

// retire has those that were given their time make room for others; mu is held.
func (f *Formation) retire() {
	for p, given := range f.mu.promises {
		if given.broken() {
			if f.fresh(given.at) {
				given = f.warnBroken(p, given)
			}
			f.remember(p, given)
		}
	}
}

// hasRoom makes room for a promise, if it has to, where some peer has broken its own or is not
// heard any more. It is remembered when that one began, so it gets no more time if it comes back;
// mu is held.
func (f *Formation) hasRoom() bool {
	if len(f.mu.promises) >= maxKnown {
		f.retire()
	}
	if len(f.mu.promises) < maxKnown {
		return true
	}
	for p, given := range f.mu.promises {
		if !f.fresh(given.at) {
			f.remember(p, given)
			return true
		}
	}
	return false
}

// remember moves a promise to those of the past; mu is held.
func (f *Formation) remember(p slot.PeerID, given promise) {
	delete(f.mu.promises, p)
	f.mu.lastPromise = later(f.mu.lastPromise, given.lastWaited())
	for q := range f.mu.past {
		if len(f.mu.past) < maxPast {
			break
		}
		delete(f.mu.past, q)
	}
	f.mu.past[p] = given
}

// warnBroken warns, once, of a peer that has had its time.
func (f *Formation) warnBroken(p slot.PeerID, given promise) promise {
	if !given.told {
		f.log.Warn("a peer said that it is about to found this run, and has not done so: not waiting for it any "+
			"more", "peer", p, "waited", promiseWait)
	}
	given.told = true
	return given
}

// promiseOf is what a peer has promised, now or in the past; mu is held.
func (f *Formation) promiseOf(p slot.PeerID) (given promise, ok bool) {
	if given, ok = f.mu.promises[p]; !ok {
		given, ok = f.mu.past[p]
	}
	return given, ok
}

// counts says whether a promise holds up the others.
func (f *Formation) counts(p promise) bool { return !p.broken() && f.fresh(p.at) }

// awaitsFounder says whether a peer is about to found the run. One whose promise had no room is
// given the time to repeat it: once all others have broken theirs, it has room. mu is held.
func (f *Formation) awaitsFounder() bool {
	f.retire()
	for _, given := range f.mu.promises {
		if f.counts(given) {
			return true
		}
	}
	return f.fresh(f.mu.crowded)
}

// lastPromise is when this peer has last waited for one that is about to found the run. From then
// on the peers that have waited look who has the lowest ID; mu is held.
func (f *Formation) lastPromise() time.Time {
	last := f.mu.lastPromise
	for _, given := range f.mu.promises {
		last = later(last, given.lastWaited())
	}
	return last
}

// lastWaited is when the peer was last heard while it had time.
func (p promise) lastWaited() time.Time {
	if end := p.ends(); p.at.After(end) {
		return end
	}
	return p.at
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
