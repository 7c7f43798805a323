package formation

import (
	"maps"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/p2p"
)

// Two peers that cannot connect do not hear that the other one searches, too, and each would settle
// a spec of its own. So a peer without a spec says in its hello from whom it expects one, of those
// that it hears itself. It does not pass on what others say: that would outlive the peer.

// expected is from whom another peer expects the spec. Each has one word: a stranger could else
// name a thousand, and all would be waited for.
type expected struct {
	peer    slot.PeerID
	at      time.Time // when the other one last said so
	founder bool      // that peer is about to found the run
}

// awaits returns the peer from which this one expects the spec, of those that it hears itself; ""
// if that is this one. mu is held.
func (f *Formation) awaits() (p slot.PeerID, founder bool) {
	if f.mu.spec != nil {
		return "", false
	}
	for q, given := range f.mu.promises {
		if f.counts(given) && (p == "" || q < p) {
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

// noteExpected takes in from whom a peer without a spec expects one, where that is one that comes
// before this peer. One that says nothing may have been started again, and has heard nobody yet.
func (f *Formation) noteExpected(from slot.PeerID, h p2p.Hello) {
	if h.Awaits == "" {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if self := f.cfg.Network.ID(); h.Awaits == self || h.Awaits > self && !h.AwaitsFounder {
		delete(f.mu.expected, from)
		return
	}
	e := expected{h.Awaits, time.Now(), h.AwaitsFounder}
	if _, known := f.mu.expected[from]; !known && len(f.mu.expected) >= maxKnown {
		maps.DeleteFunc(f.mu.expected, func(_ slot.PeerID, e expected) bool { return !f.isAhead(e) })
	}
	f.mu.expected[from] = e
	if len(f.mu.expected) > maxKnown { // strangers by the thousand: any of them
		for q := range f.mu.expected {
			delete(f.mu.expected, q)
			break
		}
	}
}

// isAhead says whether the peer that a word names is to settle the spec before this one. mu is
// held.
func (f *Formation) isAhead(e expected) bool {
	given, known := f.promiseOf(e.peer)
	broken := e.founder && known && given.broken()
	return (e.peer < f.cfg.Network.ID() || e.founder) && f.fresh(e.at) && !broken
}

// othersFirst says whether this peer waits for another one to settle the spec, or has not looked
// around. If none of those that go first settles, the patience of the others must not end at once,
// or each of them founds: it grows with the number of those that go first. mu is held.
func (f *Formation) othersFirst(waited time.Duration, looked bool) bool {
	ahead, patience := f.ahead(), searchingWait*f.cfg.Discovery
	switch {
	case waited < patience:
		return !looked || ahead > 0
	case f.cfg.Found || waited >= time.Duration(ahead)*patience:
		return false
	}
	if !f.mu.outwaited {
		f.mu.outwaited = true
		f.log.Warn("other peers come first to found this run, and none of them has done so: still waiting for them. "+
			"If they are not yours, have this peer found the run (Found, p2pdiloco start)", "peers", ahead,
			"waited", waited)
	}
	return true
}

// ahead counts the peers that are to settle the spec before this one: those with a lower ID that
// this one hears, or that others hear, and those that are about to found the run. One that has
// broken its word here is not among them, though others may still wait for it. mu is held.
func (f *Formation) ahead() int {
	all := make(map[slot.PeerID]bool)
	for p, at := range f.mu.searching {
		if p < f.cfg.Network.ID() && f.fresh(at) {
			all[p] = true
		}
	}
	for _, e := range f.mu.expected {
		if f.isAhead(e) {
			all[e.peer] = true
		}
	}
	return len(all)
}

// fresh says whether what was heard at a time still counts.
func (f *Formation) fresh(at time.Time) bool { return time.Since(at) < hearsSearching*f.cfg.Hello }
