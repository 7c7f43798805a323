package chaos

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/internal/eventlog"
)

// fast is by how much a newcomer's clock is ahead in a fault of kind Clock.
const fast = 90 * time.Minute

// clockWithin is how long it may take until the newcomer and another peer name the clock: a clock
// is read anew once a minute.
const clockWithin = 75 * time.Second

// clockSaid says whether a newcomer and another peer name the newcomer's clock, as they last said.
// If they do not in time, or if the newcomer has founded a run of its own, that is a fault.
func (r *runner) clockSaid(f *fault) bool {
	p := f.victims[0]
	own := p.status.Clocks != nil && nearFast(p.status.Clocks.Off)
	others := slices.ContainsFunc(r.nodes, func(q *node) bool { return q != p && q.namesClock(p) })
	late := time.Since(f.lifted) > r.cfg.stretch(clockWithin)
	if !late && (!own || !others) {
		return false
	}
	var wrong []string
	if !own || !others {
		wrong = append(wrong, fmt.Sprintf("it says so itself: %v, another peer says so: %v", own, others))
	}
	if slices.ContainsFunc(p.heard, func(l eventlog.Line) bool { return l.Event == "run.founded" }) {
		wrong = append(wrong, "it has founded a run of its own")
	}
	if len(wrong) > 0 {
		r.odd = append(r.odd, fmt.Sprintf("slot %d: the clock of peer %d is %v ahead: %s", f.BegunSlot, p.n, fast,
			strings.Join(wrong, "; ")))
	}
	return true
}

// namesClock says whether a peer names another one's clock as fast.
func (p *node) namesClock(other *node) bool {
	return p.status.Clocks != nil && slices.ContainsFunc(p.status.Clocks.Peers, func(c p2pdiloco.ClockOff) bool {
		return c.Peer.String() == other.ID && nearFast(c.Off)
	})
}

func nearFast(off time.Duration) bool { return (off - fast).Abs() < time.Minute }
