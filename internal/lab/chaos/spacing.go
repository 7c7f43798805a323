package chaos

import (
	"fmt"
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

// onBranch says whether a peer goes on as a branch, by what it last said.
func (p *node) onBranch() bool { return p.status.Provisional != "" }

// branched says whether a fault of kind Partition that is long enough for it has made a branch, or
// will not make one any more.
func (r *runner) branched(f *fault) bool {
	f.forked = f.forked || slices.ContainsFunc(r.nodes, (*node).onBranch)
	switch {
	case f.forked || !r.cfg.forks() || f.Seconds < r.cfg.timing().Ledger.ForkAfter.Seconds():
		return true
	case time.Since(f.began) < r.cfg.turnAfter():
		return false
	}
	r.inVain(f, noBranch)
	return true
}

// oneSideEnded says whether one side of a fault of kind Apart has finished the run, and the other
// one has gone on without it, as far as it may. With trust crash one of them must have forked in
// time.
func (r *runner) oneSideEnded(f *fault) bool {
	f.forked = f.forked || slices.ContainsFunc(r.nodes, (*node).onBranch)
	others := slices.DeleteFunc(slices.Clone(r.nodes), func(p *node) bool { return p.hurt == f })
	met := func(ended, goesOn []*node) bool {
		return !slices.ContainsFunc(ended, func(p *node) bool {
			return !p.gone && p.status.Phase != p2pdiloco.PhaseEnded
		}) && (!r.cfg.forks() || slices.ContainsFunc(goesOn, func(p *node) bool {
			return p.onBranch() && p.status.Slot >= min(f.BegunSlot+outworkAfter, r.cfg.Slots)
		}))
	}
	most := r.cfg.turnAfter()
	switch since := time.Since(f.began); {
	case met(others, f.victims) || met(f.victims, others):
		return true
	case r.cfg.forks() && !f.forked && since > most:
		r.inVain(f, noBranch)
		return true
	case since > 2*most:
		r.light = append(r.light, fmt.Sprintf("slot %d: %s: after %v no side had ended with a heavier branch beside it",
			f.BegunSlot, f, 2*most))
		return true
	}
	return false
}
