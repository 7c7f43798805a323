package admission

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/node/admission/proof"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

var errSecret = errors.New("p2pdiloco: the admission secret is refused")

// Bounds on what is remembered.
const (
	maxRefusals = 16   // reasons of members
	maxPeers    = 1024 // peers that were asked, and refusals that were logged
)

// refusals keeps the reasons that other peers gave for not admitting this one. A member that
// refuses a ticket may be wrong: its clock may be off, or it may have a list of its own. So this
// peer asks others for a while, too.
type refusals struct {
	tries   map[slot.PeerID]int    // how often a peer gave no proof in its answer
	logged  map[logged]bool        // refusals that were logged
	reasons map[slot.PeerID]string // what members have said
	since   time.Time              // the first of them
}

type logged struct {
	from   slot.PeerID
	reason string
}

func newRefusals() refusals {
	return refusals{
		tries: make(map[slot.PeerID]int), logged: make(map[logged]bool), reasons: make(map[slot.PeerID]string),
	}
}

// proveless counts that a peer gave no proof, or refused an older secret. The next Ask to it uses
// another proof.
func (r *refusals) proveless(p slot.PeerID) {
	if _, known := r.tries[p]; !known && len(r.tries) >= maxPeers {
		clear(r.tries)
	}
	r.tries[p]++
}

// isNew says whether a refusal is to be logged. Under no name it says whether to tell the user, who
// need not hear one reason from each member.
func (r *refusals) isNew(from slot.PeerID, reason string) bool {
	if len(r.logged) >= maxPeers {
		clear(r.logged)
	}
	said := logged{from, reason}
	before := r.logged[said]
	r.logged[said] = true
	return !before
}

// add notes what a member says, and whether it is the first time.
func (r *refusals) add(from slot.PeerID, reason string) (first bool) {
	if r.since.IsZero() {
		r.since = time.Now()
	}
	_, again := r.reasons[from]
	if again || len(r.reasons) < maxRefusals {
		r.reasons[from] = reason
	}
	return !again
}

// clear forgets the reasons, because a member has admitted this peer.
func (r *refusals) clear() { clear(r.reasons) }

// turnedAway notes that a peer does not admit this one, although this one has a secret. mu is held.
// A peer that gives no proof may know only an older secret: the next Ask uses that. A ticket of a
// newer secret is tried, too, even if others have refused an older one.
func (g *Guard) turnedAway(from slot.PeerID, refused *proof.RefusedError) {
	r := &g.mu.refusals
	if !refused.Proven || g.mu.Spare() {
		r.proveless(from)
	}
	switch {
	case !refused.Proven:
	case g.mu.run.IsZero(): // the secret may be an old copy, and the operator should know
		if len(r.reasons) == 0 {
			time.AfterFunc(g.cfg.Asking, g.giveUp) // a member that asks here is not asked again
		}
		g.refusedBy(from, refused.Reason)
	case r.isNew(from, refused.Reason):
		g.cfg.Logger.Info("a peer of the run does not let this one in", "peer", from, "reason", refused.Reason)
		if r.isNew("", refused.Reason) && g.cfg.Refused != nil {
			g.cfg.Refused(from, refused.Reason)
		}
	}
}

// refusedBy notes the reason that a member gave. It gives up when others had enough time to give
// another answer. mu is held.
func (g *Guard) refusedBy(from slot.PeerID, reason string) {
	if g.mu.refusals.add(from, reason) {
		g.cfg.Logger.Warn("a member does not let this peer in; asking others", "peer", from, "reason", reason)
	}
	if time.Since(g.mu.refusals.since) >= g.cfg.Asking {
		g.end(g.refusal())
	}
}

// refusal returns the reasons that members gave. mu is held.
func (g *Guard) refusal() error {
	reasons := g.mu.refusals.reasons
	why := slices.Compact(slices.Sorted(maps.Values(reasons)))
	what := ErrTicket
	if !g.mu.Ring.IsZero() {
		what = errSecret
	}
	return fmt.Errorf("%w by all members that were asked (%d): %s", what, len(reasons), strings.Join(why, "; "))
}

// giveUp ends the search for a run whose members refuse this peer's secret, if no member has
// admitted it meanwhile.
func (g *Guard) giveUp() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.mu.run.IsZero() && len(g.mu.refusals.reasons) > 0 {
		g.end(g.refusal())
	}
}

// Barred says whether members have refused this peer so far.
func (g *Guard) Barred() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.mu.refusals.reasons) > 0
}

// Refused delivers the reason why this peer will not be admitted, once that is certain.
func (g *Guard) Refused() <-chan error { return g.refused }

// end delivers the reason why this peer will not be admitted.
func (g *Guard) end(err error) {
	select {
	case g.refused <- err:
	default:
	}
}
