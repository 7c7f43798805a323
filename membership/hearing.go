package membership

import (
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// hearing keeps whether this peer hears the others at all. A peer whose own link was down, or that
// did not run for a moment, has heard nobody. That says nothing of the others: then all hearing
// begins anew, and they get the full time to be heard before this peer takes them for lost.
type hearing struct {
	// fewer electors than decide a record were heard in the last two thirds of Timing.Lost
	deaf    bool
	watched time.Duration // when this peer looked last
}

// watchHearing begins all hearing anew when this peer goes on after it did not run, and when it
// hears enough of the others again.
func (pr *presence) watchHearing() {
	h := &pr.hearing
	stopped := h.watched != never && pr.now-h.watched > pr.cfg.Timing.Lost/3
	hears := pr.cfg.Rules.Quorum(pr.chain.Electorate(), func(e slot.Member) bool {
		a := pr.known[ofMember(e)]
		return ofMember(e) == pr.self || a != nil && pr.now-max(a.heard, pr.busy) <= 2*pr.lost()/3
	})
	if stopped || hears && h.deaf {
		for _, a := range pr.known {
			a.heard = pr.now
		}
	}
	h.watched, h.deaf = pr.now, !hears && !stopped
}
