package chaos

import (
	"slices"
	"time"

	"github.com/p2pdiloco/p2pdiloco"
)

// last says whether a kind is a run's last fault: the run ends meanwhile.
func (k Kind) last() bool { return k == End || k == Apart }

// heavy is the model of the peers on the smaller side of a fault of kind Apart: each of their
// contributions counts eight times as many tokens. So what they do alone is more work than what the
// others do to the end, once they have done outworkAfter slots: a fork costs them three.
const (
	heavy        = "layers=1,width=16,heads=2,context=8,batch=16"
	apartSlots   = 8 // that the run has left when the fault begins
	outworkAfter = 6
)

// juniors are the peers that a fault of kind Apart cuts off: half of all or fewer, and not the
// first one, which has founded the run. With trust byzantine the others stay a quorum.
func (r *runner) juniors() []*node {
	n := r.cfg.Peers / 2
	if r.cfg.Trust == p2pdiloco.TrustByzantine {
		n = r.mayFail(r.electors())
	}
	return slices.Clone(r.nodes[r.cfg.Peers-n : r.cfg.Peers])
}

// weight are the flags of a peer whose contributions count more than those of others.
func (r *runner) weight(p *node) []string {
	junior := p.n > r.cfg.Peers-r.cfg.Peers/2 && p.n <= r.cfg.Peers
	if !slices.Contains(r.cfg.Kinds, Apart) || r.cfg.Reduction > 0 || !junior {
		return nil
	}
	return []string{"--model", heavy}
}

// oneSideEnded says whether one side of a fault of kind Apart has finished the run, and the other
// one has gone on without it, as far as it may.
func (r *runner) oneSideEnded(f *fault) bool {
	others := slices.DeleteFunc(slices.Clone(r.nodes), func(p *node) bool { return p.hurt == f })
	met := func(ended, goesOn []*node) bool {
		return !slices.ContainsFunc(ended, func(p *node) bool {
			return !p.gone && p.status.Phase != p2pdiloco.PhaseEnded
		}) && (r.cfg.Trust == p2pdiloco.TrustByzantine || slices.ContainsFunc(goesOn, func(p *node) bool {
			return p.status.Provisional != "" && p.status.Slot >= min(f.BegunSlot+outworkAfter, r.cfg.Slots)
		}))
	}
	return met(others, f.victims) || met(f.victims, others) || time.Since(f.began) > 2*r.cfg.turnAfter()
}
