package p2pdiloco

import (
	"math"
	"slices"
	"sync"

	"github.com/p2pdiloco/p2pdiloco/internal/similarity"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// StatsStatus says how the training goes, as this peer sees it: of the newest slot that was applied here, and of its own trainer. It is for
// people: nothing is decided by it. What is not known is nil.
type StatsStatus struct {
	Slot         uint64  `json:"slot"`          // the newest applied; 0: none since this process started
	Contributors int     `json:"contributors"`  // that its record lists
	Weight       uint64  `json:"weight"`        // of all contributions: tokens or samples
	Staleness    float64 `json:"staleness"`     // mean over the contributions, in slots
	MaxStaleness uint64  `json:"max_staleness"` // in slots

	// Norm is the Euclidean norm of the aggregated pseudo-gradient, OwnNorm that of this peer's, Cosine that of the angle between the two. Above
	// statsElements elements they are estimates, from so many of them. PairCosine is the mean cosine over all pairs of contributions, on a few
	// frames of the part that this peer reduced.
	Norm       float64  `json:"norm"`
	OwnNorm    *float64 `json:"own_norm,omitempty"`
	Cosine     *float64 `json:"cosine,omitempty"`
	PairCosine *float64 `json:"pair_cosine,omitempty"`

	Loss      *float64 `json:"loss,omitempty"`       // held-out, of the newest anchor that was measured
	LossSlot  uint64   `json:"loss_slot,omitempty"`  // which one that is
	TrainLoss *float64 `json:"train_loss,omitempty"` // mean over the newest round's inner steps

	Applied       uint64 `json:"applied"`       // slots since this process started
	Contributions uint64 `json:"contributions"` // those of them that list a contribution of this peer
	Tokens        uint64 `json:"tokens"`        // or samples, behind this peer's pseudo-gradients since this process started
}

// statsElements bounds what the measures cost: some 10 ms a slot on one core.
const statsElements = 1 << 22

// gauges keep the newest StatsStatus.
type gauges struct {
	mu struct {
		sync.Mutex
		stats StatsStatus
	}
}

func (g *gauges) stats() StatsStatus {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.mu.stats
}

// trained takes in what a round of inner steps gave.
func (g *gauges) trained(s Stats) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.mu.stats.TrainLoss = known(s.Loss, true)
}

// encoded takes in that a pseudo-gradient of so many tokens is there.
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

// applied takes in a slot's measures and returns them as the fields of an event.
func (g *gauges) applied(s slotStats) map[string]any {
	g.mu.Lock()
	defer g.mu.Unlock()
	own := &g.mu.stats
	own.Slot, own.Contributors, own.Weight, own.Staleness, own.MaxStaleness = s.slot, s.contributors, s.weight, s.staleness, s.maxStaleness
	own.Norm, own.OwnNorm, own.Cosine, own.PairCosine = s.norm, s.ownNorm, s.cosine, s.pairCosine
	own.Applied++
	if s.listed {
		own.Contributions++
	}
	return s.fields()
}

// known is a value that a JSON document can hold, nil if it is none.
func known(v float64, ok bool) *float64 {
	if !ok || math.IsNaN(v) || math.IsInf(v, 0) {
		return nil
	}
	return &v
}

// slotStats are the measures of one slot.
type slotStats struct {
	slot         uint64
	contributors int
	weight       uint64
	staleness    float64
	maxStaleness uint64
	listed       bool // this peer is a contributor

	norm                        float64
	ownNorm, cosine, pairCosine *float64
}

func (s slotStats) fields() map[string]any {
	fields := map[string]any{
		"slot": s.slot, "contributors": s.contributors, "weight": s.weight, "staleness": s.staleness, "max_staleness": s.maxStaleness, "norm": s.norm,
	}
	for name, v := range map[string]*float64{"own_norm": s.ownNorm, "cosine": s.cosine, "pair_cosine": s.pairCosine} {
		if v != nil {
			fields[name] = *v
		}
	}
	return fields
}

// statsOf takes from a record what it says by itself.
func statsOf(record slot.Record) slotStats {
	s := slotStats{slot: record.Slot, contributors: len(record.Contributions)}
	total := 0.0
	for _, o := range record.Contributions {
		stale := record.Slot - 1 - o.Base // validated: base < slot
		s.weight += o.Weight
		s.maxStaleness = max(s.maxStaleness, stale)
		total += float64(stale)
	}
	if s.contributors > 0 {
		s.staleness = total / float64(s.contributors)
	}
	return s
}

// measure adds to what a record says how long its aggregated pseudo-gradient is, how it lies to this peer's contribution, and how those
// lie to each other that were reduced here. It only reads.
func (w *worker) measure(record slot.Record, grad []float32) slotStats {
	s := statsOf(record)
	own, cosine := w.ownOf(record)
	s.listed = slices.ContainsFunc(record.Contributions, func(o slot.Offer) bool { return o.Peer == w.self })
	s.pairCosine = known(cosine.Value())
	sums, err := similarity.Sampled(len(grad), statsElements, w.beside(grad, own))
	if err != nil { // it was encoded here: nothing to tell, and nothing depends on it
		w.log.Warn("the own contribution was not measured", "slot", record.Slot, "err", err)
		return s
	}
	norm, ownNorm := sums.Norms()
	s.norm = norm
	if own != nil {
		s.ownNorm, s.cosine = known(ownNorm, true), known(sums.Cosine())
	}
	return s
}

// ownOf finds this peer's encoded contribution to a record, nil if there is none or it is not here any more, and the cosines of the
// reduction that the record came of.
func (w *worker) ownOf(record slot.Record) (own []byte, cosine similarity.Mean) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, o := range record.Contributions {
		if c, ok := w.mu.own[o.Root]; ok && o.Peer == w.self {
			own = c.encoded.Bytes()
		}
	}
	if r := w.mu.reduction; r != nil && r.Plan().Slot == record.Slot {
		cosine = r.Cosine()
	}
	return own, cosine
}

// beside lends parts of the aggregated pseudo-gradient, and of a contribution to it: zeros where there is none.
func (w *worker) beside(grad []float32, own []byte) func(begin, end int) (a, b []float32, err error) {
	var part [similarity.Block]float32
	return func(begin, end int) (a, b []float32, err error) {
		b = part[:end-begin]
		if own != nil {
			err = w.codec.Decode(b, own[w.codec.EncodedSize(begin):w.codec.EncodedSize(end)])
		}
		return grad[begin:end], b, err
	}
}
