package p2pdiloco

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/admission"
)

var errSecret = errors.New("p2pdiloco: the admission secret is refused")

// A member that refuses a ticket may be wrong: its clock is, or it has a list of its own. So others are asked, too, for some discovery windows.
const (
	refusalsWait = 3
	maxRefusals  = 16 // that are remembered
)

// telling is a refusal that was logged.
type telling struct {
	from   PeerID
	reason string
}

// turnedAway notes that a peer does not admit this one, though it has a secret. mu is held. Who proves nothing may know an older one: it is asked with that
// next. Where there is a ticket of a newer secret it has its turn whatever the others say against an older one.
func (d *doorman) turnedAway(from PeerID, refused *admission.RefusedError) {
	if !refused.Proven || d.mu.Spare() {
		if _, known := d.mu.tries[from]; !known && len(d.mu.tries) >= maxMet {
			clear(d.mu.tries)
		}
		d.mu.tries[from]++
	}
	if !refused.Proven {
		return
	}
	if d.mu.run.IsZero() { // the secret may be an old copy: that is to be known
		if len(d.mu.refusals) == 0 {
			time.AfterFunc(d.asking, d.giveUp) // members that ask this peer are not asked again
		}
		d.refusedBy(from, refused.Reason)
		return
	}
	if len(d.mu.told) >= maxMet {
		clear(d.mu.told)
	}
	if said := (telling{from, refused.Reason}); !d.mu.told[said] {
		d.mu.told[said] = true
		d.log.Warn("a peer of the run does not let this one in", "peer", from, "reason", refused.Reason)
	}
}

// refusedBy notes what a member says, and ends when others had their time to say something else. mu is held.
func (d *doorman) refusedBy(from PeerID, reason string) {
	if d.mu.refusals == nil {
		d.mu.refusals, d.mu.since = make(map[PeerID]string), time.Now()
	}
	_, again := d.mu.refusals[from]
	if !again {
		d.log.Warn("a member does not let this peer in; asking others", "peer", from, "reason", reason)
	}
	if again || len(d.mu.refusals) < maxRefusals {
		d.mu.refusals[from] = reason
	}
	if time.Since(d.mu.since) < d.asking {
		return
	}
	d.end(d.refusal())
}

// refusal is what members have said. mu is held.
func (d *doorman) refusal() error {
	why := slices.Compact(slices.Sorted(maps.Values(d.mu.refusals)))
	what := ErrTicket
	if !d.mu.Ring.IsZero() {
		what = errSecret
	}
	return fmt.Errorf("%w by all members that were asked (%d): %s", what, len(d.mu.refusals), strings.Join(why, "; "))
}

// giveUp ends the search for a run whose members refuse this peer's secret, if nobody has let it in meanwhile.
func (d *doorman) giveUp() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.mu.run.IsZero() && len(d.mu.refusals) > 0 {
		d.end(d.refusal())
	}
}

// barred says whether members have refused this peer so far.
func (d *doorman) barred() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.mu.refusals) > 0
}

// end says why this peer will not be let in.
func (d *doorman) end(err error) {
	select {
	case d.refused <- err:
	default:
	}
}
