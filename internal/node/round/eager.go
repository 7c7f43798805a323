package round

import (
	"github.com/p2pdiloco/p2pdiloco/outeropt"
)

// Mode eager starts from the anchor with this peer's part of the outer step in it, of M
// contributors (arXiv 2502.12996). w is private to the peer:
//
//	w = mu w + D_s;  start = theta - lr/M (D_s + mu w)
//
// The paper's form gives each peer an outer state of its own, and so a model of its own. Here
// (theta, v) is shared and steps only on the previous slot's g, as in every mode. The trajectory is
// the same.
func newEager(cfg outeropt.Config) Mode {
	e := &eagerStep{cfg: cfg}
	return overlapped{ahead: e.step}
}

// eagerStep is the outer optimizer's step of one peer's part. Its momentum w is of what this peer
// has offered since its process started.
type eagerStep struct {
	cfg   outeropt.Config
	peers int
	outer outeropt.Optimizer
	steps uint64 // it has done
}

func (e *eagerStep) step(start, own []float32, peers int) {
	if e.outer == nil || e.peers != peers {
		cfg := e.cfg
		cfg.LR /= float32(peers)
		outer, err := outeropt.New(cfg, uint64(len(start)))
		if err != nil {
			panic(err) // the same but for the rate, that steps the anchor
		}
		if e.outer != nil {
			for i, v := range outer.State() {
				copy(v, e.outer.State()[i])
			}
		}
		e.peers, e.outer = peers, outer
	}
	e.steps++
	outeropt.Step(e.outer, start, own, outeropt.At{Step: e.steps})
}
