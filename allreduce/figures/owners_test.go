package figures

import (
	"math"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/allreduce"
	"github.com/p2pdiloco/p2pdiloco/allreduce/codec"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// Nothing proves figures, so fewer than half of the owners must not make an honest peer stand out:
// of five that reduce equal contributions two or three publish that one is the opposite, and huge.
func TestFewOwnersNameNobody(t *testing.T) {
	params := simParams(allreduce.Mean, false, codec.F32)
	var offers []slot.Offer
	for _, p := range []slot.PeerID{"a", "b", "c", "d", "e"} {
		offers = append(offers, slot.Offer{Peer: p, Slot: 1, Weight: 1})
	}
	for liars, honest := range map[int]bool{2: true, 3: false} {
		var segments []Segment
		for i, o := range offers {
			row := slot.FigureRow{Norm: 1}
			for range offers {
				row.Of = append(row.Of, slot.Figure{Norm: 1, Along: 1})
			}
			if i < liars {
				row.Of[2].Norm, row.Of[2].Along = 100, -100
			}
			segments = append(segments, Segment{Owner: o.Peer, Offers: offers, Rows: []slot.FigureRow{row}})
		}
		c := Sum(params, 1, segments)[2]
		if fits := math.Abs(c.Cosine-1) < 1e-6 && math.Abs(c.Ratio-1) < 1e-6; c.Peer != "c" || fits != honest {
			t.Errorf("%d liars: cosine %v, ratio %v of %s", liars, c.Cosine, c.Ratio, c.Peer)
		}
	}
}
