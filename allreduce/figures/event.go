package figures

import (
	"cmp"
	"math"
	"slices"
	"strconv"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// mostFigures is how many contributors the event of a slot lists: some 6 kB.
const mostFigures = 32

// Figures are those of one contributor in the event of a slot. What is not known is nil.
type Figures struct {
	Peer    slot.PeerID `json:"peer"`
	Norm    float64     `json:"norm"`
	Ratio   *float64    `json:"ratio,omitempty"`
	Cosine  *float64    `json:"cosine,omitempty"`
	Trimmed float64     `json:"trimmed"`
	Clip    float64     `json:"clip"`
}

// event returns the fields of the event that has the figures of a slot. Of more contributors than
// mostFigures it lists those that point the way of the others least, and an equal number of those
// with the largest norms: whoever spoils a model is one of the two.
func event(slotNumber uint64, of []Contribution) map[string]any {
	fields := map[string]any{"slot": slotNumber}
	if n := len(of); n > mostFigures {
		of = extremes(of)
		fields["left_out"] = n - len(of)
	}
	listed := make([]Figures, len(of))
	for i, c := range of {
		listed[i] = Figures{
			Peer: c.Peer, Norm: short(c.Norm), Ratio: Finite(short(c.Ratio)), Cosine: Finite(short(c.Cosine)),
			Trimmed: short(c.Trimmed), Clip: short(c.Clip),
		}
	}
	fields["contributors"] = listed
	return fields
}

// extremes returns mostFigures of more contributions, in the order of their peers.
func extremes(of []Contribution) []Contribution {
	turned := func(c Contribution) float64 {
		if math.IsNaN(c.Cosine) {
			return 2 // it says nothing, so it comes last
		}
		return c.Cosine
	}
	byCosine := slices.SortedStableFunc(slices.Values(of), func(a, b Contribution) int {
		return cmp.Compare(turned(a), turned(b))
	})
	kept, others := slices.Clone(byCosine[:mostFigures/2]), byCosine[mostFigures/2:]
	slices.SortStableFunc(others, func(a, b Contribution) int { return cmp.Compare(b.Norm, a.Norm) })
	kept = append(kept, others[:mostFigures-len(kept)]...)
	slices.SortFunc(kept, func(a, b Contribution) int { return cmp.Compare(a.Peer, b.Peer) })
	return kept
}

// Finite returns a value that a JSON document can hold, or nil if it cannot.
func Finite(v float64) *float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return nil
	}
	return &v
}

// short has four digits that count: the file of the events grows with each slot.
func short(v float64) float64 {
	v, _ = strconv.ParseFloat(strconv.FormatFloat(v, 'g', 4, 64), 64)
	return v
}
