package round

import (
	"math"
	"sync"

	"github.com/p2pdiloco/p2pdiloco/trainer"
)

// Stats say how the training goes at this peer. Unknown values are nil.
type Stats struct {
	Loss      *float64 // held-out, of the newest anchor that was measured
	LossSlot  uint64   // which one that is
	TrainLoss *float64 // mean over the newest round's inner steps
	Tokens    uint64   // or samples, behind this peer's pseudo-gradients
}

// gauges keep the newest Stats.
type gauges struct {
	mu struct {
		sync.Mutex
		stats Stats
	}
}

func (g *gauges) stats() Stats {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.mu.stats
}

// trained takes in the result of a round of inner steps.
func (g *gauges) trained(s trainer.Stats) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.mu.stats.TrainLoss = known(s.Loss, true)
}

// encoded counts the tokens of a pseudo-gradient that was encoded.
func (g *gauges) encoded(tokens uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.mu.stats.Tokens += tokens
}

// measured takes in the loss of the anchor after a slot.
func (g *gauges) measured(slotNumber uint64, loss float64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.mu.stats.Loss, g.mu.stats.LossSlot = known(loss, true), slotNumber
}

// known returns a value that a JSON document can hold, or nil if it cannot.
func known(v float64, ok bool) *float64 {
	if !ok || math.IsNaN(v) || math.IsInf(v, 0) {
		return nil
	}
	return &v
}
