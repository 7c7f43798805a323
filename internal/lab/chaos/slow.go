package chaos

import (
	"fmt"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/sources"
	"github.com/p2pdiloco/p2pdiloco/p2p"
)

// A larger model, whose reduction takes seconds where its peers send little in a second.
const (
	largeModel = "layers=1,width=96,heads=2,context=8,batch=1"
	largeBytes = 550_000 // of its parameters
)

// longestReduction keeps a slot shorter than the time after which a run counts as stuck.
const longestReduction = 15 * time.Second

// upload is the bound on what a peer sends with which a reduction takes as long as is wanted: each
// peer sends its contribution to the others, and its part of the outcome.
func (c Config) upload() sources.Rate {
	bits := 8 * 2 * largeBytes * float64(c.Peers-1) / float64(c.Peers) / c.Reduction.Seconds()
	return sources.Rate(max(bits, 8*p2p.MinUpload))
}

// slowness are the flags of all peers that make reductions slow, and the model.
func (c Config) slowness() (flags []string) {
	if c.Reduction == 0 {
		return []string{"--model", model}
	}
	return []string{"--model", largeModel, "--max-upload", c.upload().String()}
}

// isTime says whether a fault is due: its slot is committed, or, where reductions take long, that
// or a later slot has been under reduction for as much of that time as the seed draws.
func (r *runner) isTime(f Fault) bool {
	g := &r.ledger
	if r.cfg.Reduction == 0 || g.slot+1 >= r.cfg.Slots {
		return g.slot >= f.Slot
	}
	share := float64(f.Pick%100) / 100
	return g.reducing() && g.planned >= f.Slot &&
		time.Since(g.plans[g.planned]).Seconds() >= share*r.cfg.Reduction.Seconds()
}

// awaitsReduction says whether a fault may begin that has to come inside of a slot's reduction,
// while its own slot is committed: then the swarm does another one.
func (r *runner) awaitsReduction() bool {
	return r.cfg.Reduction > 0 && len(r.pending) > 0 && r.ledger.slot >= r.pending[0].Slot && r.mayBegin(r.pending[0])
}

// reductionText says how long reductions took, and how many faults came inside of one.
func reductionText(r Result) string {
	inside := 0
	for _, f := range r.Faults {
		if f.InReduction {
			inside++
		}
	}
	return fmt.Sprintf("a slot's reduction took %.2f s (median); %d of %d faults began inside of one\n",
		r.ReductionSeconds, inside, len(r.Faults))
}
