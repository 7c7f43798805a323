package formation

import (
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/p2p"
)

// Two peers that cannot connect do not hear that the other one searches, too, and each would settle
// a spec of its own. So a peer without a spec says in its hello from whom it expects one, of those
// that it hears itself. It does not pass on what others say: that would outlive the peer.

// expected is from whom others expect the spec.
type expected struct {
	at      time.Time // when one of them last said so
	founder bool      // it is about to found the run
}

// awaits returns the peer from which this one expects the spec, of those that it hears itself; ""
// if that is this one. mu is held.
func (f *Formation) awaits() (p slot.PeerID, founder bool) {
	if f.mu.spec != nil {
		return "", false
	}
	for q, given := range f.mu.promises {
		if f.fresh(given.at) && (p == "" || q < p) {
			p = q
		}
	}
	if p != "" {
		return p, true
	}
	for q, at := range f.mu.searching {
		if f.fresh(at) && (p == "" || q < p) {
			p = q
		}
	}
	if self := f.cfg.Network.ID(); len(f.given.Layout) > 0 && self < p {
		return "", false
	}
	return p, false
}

// noteExpected takes in from whom a peer without a spec expects one.
func (f *Formation) noteExpected(h p2p.Hello) {
	if h.Awaits == "" || h.Awaits == f.cfg.Network.ID() {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, known := f.mu.expected[h.Awaits]; known || len(f.mu.expected) < maxKnown {
		f.mu.expected[h.Awaits] = expected{time.Now(), h.AwaitsFounder}
	}
}

// settlesElsewhere says whether another peer is to settle the spec: one with a lower ID that this
// one hears, or that others hear, or one that is about to found the run. mu is held.
func (f *Formation) settlesElsewhere() bool {
	self := f.cfg.Network.ID()
	for p, at := range f.mu.searching {
		if p < self && f.fresh(at) {
			return true
		}
	}
	for p, e := range f.mu.expected {
		if (p < self || e.founder) && f.fresh(e.at) {
			return true
		}
	}
	return false
}

// fresh says whether what was heard at a time still counts.
func (f *Formation) fresh(at time.Time) bool { return time.Since(at) < hearsSearching*f.cfg.Hello }
