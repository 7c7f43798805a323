package formation

import (
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// Of the peers that look for the run and see each other the lowest ID settles the spec. Nobody
// passes on who else does: two that see each other only through others both settle one, and where
// those are two runs, one of the two is given up (see weigh).

const (
	// searchingWait is the number of discovery windows for which this peer waits for each searching
	// peer with a lower ID to settle the spec.
	searchingWait = 5
	// hearsSearching is the number of pauses between hellos after which a silent peer does not
	// count any more.
	hearsSearching = 8
)

// noteSearching notes a peer that knows no spec yet. It warns if that peer cannot adopt the spec
// that this peer might settle.
func (f *Formation) noteSearching(p slot.PeerID, given map[string]string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if given["layout"] == "" {
		return // that peer cannot settle a spec either
	}
	_, met := f.mu.searching[p]
	if !met {
		for name, here := range f.fields {
			if there, ok := given[name]; ok && there != here {
				f.log.Warn("a peer that looks for this run, too, wants another value: one of the two will be refused",
					"peer", p, "field", name, "here", here, "there", there)
			}
		}
	}
	if met || len(f.mu.searching) < maxKnown || f.dropSearching(p) {
		f.mu.searching[p] = time.Now()
	}
}

// dropSearching makes room for a searching peer: one that is not heard any more gives up its place,
// or else the highest one, if it is above the new one. Nobody waits for higher ones. mu is held.
func (f *Formation) dropSearching(p slot.PeerID) bool {
	highest := p
	for q, at := range f.mu.searching {
		if !f.fresh(at) {
			highest = q
			break
		}
		highest = max(highest, q)
	}
	delete(f.mu.searching, highest)
	return len(f.mu.searching) < maxKnown
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

// ahead counts the peers with a lower ID that look for the run, too, and that this one hears: they
// are to settle the spec before it. mu is held.
func (f *Formation) ahead() (n int) {
	for p, at := range f.mu.searching {
		if p < f.cfg.Network.ID() && f.fresh(at) {
			n++
		}
	}
	return n
}

// fresh says whether what was heard at a time still counts.
func (f *Formation) fresh(at time.Time) bool { return time.Since(at) < hearsSearching*f.cfg.Hello }
