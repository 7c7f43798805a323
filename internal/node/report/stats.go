package report

import (
	"github.com/p2pdiloco/p2pdiloco/internal/node/replica"
	"github.com/p2pdiloco/p2pdiloco/internal/node/round"
)

// StatsStatus says how the training goes, as this peer sees it: of the newest slot that was applied
// here, and of its own trainer. It is for people: nothing is decided by it. What is not known is
// nil.
type StatsStatus struct {
	// the newest applied; 0: none since this process started
	Slot         uint64  `json:"slot"`
	Contributors int     `json:"contributors"`  // that its record lists
	Weight       uint64  `json:"weight"`        // of all contributions: tokens or samples
	Staleness    float64 `json:"staleness"`     // mean over the contributions, in slots
	MaxStaleness uint64  `json:"max_staleness"` // in slots

	// Norm is the Euclidean norm of the aggregated pseudo-gradient, OwnNorm that of this peer's,
	// Cosine that of the angle between the two. Above 4 Mi elements they are estimates from
	// so many of them. PairCosine is the mean cosine over all pairs of contributions, on a few
	// frames of the part that this peer reduced.
	Norm       float64  `json:"norm"`
	OwnNorm    *float64 `json:"own_norm,omitempty"`
	Cosine     *float64 `json:"cosine,omitempty"`
	PairCosine *float64 `json:"pair_cosine,omitempty"`

	// held-out, of the newest anchor that was measured
	Loss      *float64 `json:"loss,omitempty"`
	LossSlot  uint64   `json:"loss_slot,omitempty"`  // which one that is
	TrainLoss *float64 `json:"train_loss,omitempty"` // mean over the newest round's inner steps

	Applied uint64 `json:"applied"` // slots since this process started
	// those of them that list a contribution of this peer
	Contributions uint64 `json:"contributions"`
	// or samples, behind this peer's pseudo-gradients since this process started
	Tokens uint64 `json:"tokens"`
}

// StatsOf puts together what the rounds and the replica have measured.
func StatsOf(own round.Stats, got replica.Stats) (s StatsStatus) {
	s.Loss, s.LossSlot, s.TrainLoss, s.Tokens = own.Loss, own.LossSlot, own.TrainLoss, own.Tokens
	newest := got.Newest
	s.Slot, s.Contributors, s.Weight = newest.Slot, newest.Contributors, newest.Weight
	s.Staleness, s.MaxStaleness = newest.Staleness, newest.MaxStaleness
	s.Norm, s.OwnNorm, s.Cosine, s.PairCosine = newest.Norm, newest.OwnNorm, newest.Cosine, newest.PairCosine
	s.Applied, s.Contributions = got.Applied, got.Contributions
	return s
}
