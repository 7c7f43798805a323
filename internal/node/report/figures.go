package report

import (
	"math"

	"github.com/p2pdiloco/p2pdiloco/allreduce/figures"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// FiguresStatus says what a member contributes, by what the owners of the parts of a slot publish:
// in the newest slot with its contribution. It is for people: nothing is decided by it. What is not
// known is nil.
type FiguresStatus struct {
	Slot  uint64   `json:"slot"`
	Norm  float64  `json:"norm"`            // Euclidean
	Ratio *float64 `json:"ratio,omitempty"` // of the norm to the median of all contributors' norms
	// of the angle to the outcome without its own part
	Cosine  *float64 `json:"cosine,omitempty"`
	Trimmed float64  `json:"trimmed"` // share of the coordinates at which it was left out
	Clip    float64  `json:"clip"`    // mean factor by which it was scaled down; 1: not
}

// AddFigures adds to members what is known of what they contribute. It returns the alarm that this
// peer raises about itself; empty: none.
func AddFigures(members []MemberStatus, known map[slot.PeerID]figures.Member) (alarm string) {
	for i := range members {
		m := &members[i]
		of := known[m.Peer]
		for _, f := range of.Findings {
			if f.Kind == figures.OwnOpposite {
				alarm = f.Words
				continue
			}
			m.StandsOut = append(m.StandsOut, f)
		}
		if of.Slot > 0 {
			n := of.Newest
			m.Figures = &FiguresStatus{
				Slot: of.Slot, Norm: n.Norm, Ratio: finite(n.Ratio), Cosine: finite(n.Cosine), Trimmed: n.Trimmed,
				Clip: n.Clip,
			}
		}
	}
	return alarm
}

// finite returns a value that a JSON document can hold, or nil if it cannot.
func finite(v float64) *float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return nil
	}
	return &v
}
