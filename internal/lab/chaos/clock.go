package chaos

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/doctor"
	"github.com/p2pdiloco/p2pdiloco/internal/eventlog"
	"github.com/p2pdiloco/p2pdiloco/internal/swarm"
)

// fast is by how much a newcomer's clock is ahead in a fault of kind Clock.
const fast = 90 * time.Minute

// probeWithin is how long the newcomer may take to probe the others.
const probeWithin = 30 * time.Second

// checkClock holds what doctor says of the newcomer's clock against what is wrong with it. That it
// says something else, or that the newcomer has founded a run of its own, is a fault.
func (r *runner) checkClock(f *fault, said string) {
	p := f.victims[0]
	var wrong []string
	if !strings.Contains(said, "this machine's clock is 1h30m0s ahead") {
		wrong = append(wrong, fmt.Sprintf("doctor says of it: %q", said))
	}
	if slices.ContainsFunc(p.heard, func(l eventlog.Line) bool { return l.Event == "run.founded" }) {
		wrong = append(wrong, "it has founded a run of its own")
	}
	if len(wrong) > 0 {
		r.odd = append(r.odd, fmt.Sprintf("slot %d: the clock of peer %d is %v ahead: %s", f.BegunSlot, p.n, fast,
			strings.Join(wrong, "; ")))
	}
}

// doctorsClock is doctor's line of a peer's clock, or why there is none.
func doctorsClock(p *swarm.Peer) string {
	ctx, cancel := context.WithTimeout(context.Background(), probeWithin)
	defer cancel()
	all, err := p.Probe(ctx)
	if err != nil {
		return err.Error()
	}
	view := &doctor.View{}
	for _, found := range all {
		view.Peers = append(view.Peers, doctor.Peer{ID: found.Peer.String(), Error: found.Error, Offset: found.Offset})
	}
	for _, finding := range view.Check() {
		if finding.Check == "clock" {
			return finding.What
		}
	}
	return ""
}
