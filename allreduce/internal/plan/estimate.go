package plan

import (
	"cmp"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// Estimate is what the links make of a plan.
type Estimate struct {
	// to send all its bytes, of the peer that needs longest; 0 where nothing was measured
	Takes   time.Duration
	Relayed uint64 // bytes that relays carry, of all peers
}

// Estimate says how long a plan's bytes take by what was measured: each peer sends its own as fast
// as its uplink lets it, and each pair as its way does. Round trips, arithmetic, what compression
// saves and the time until the record is agreed are not in it. It is zero for a plan that does not
// fit the run.
func (p Params) Estimate(plan slot.Plan, links slot.Links) (e Estimate) {
	if Check(p, plan) != nil {
		return e
	}
	n := len(plan.Offers)
	seconds := 0.0
	relayed := relayedWays(n, links)
	for i, sends := range p.loads(plan) {
		all := 0.0
		for j, bytes := range sends {
			way := links.Between(i, j)
			speed := way.Speed()
			if way.Relayed() && bytes > 0 {
				e.Relayed += uint64(bytes)
				speed = cmp.Or(speed, relayRate/float64(relayed[i]))
			}
			if all += bytes; speed > 0 {
				seconds = max(seconds, bytes/speed/1000)
			}
		}
		if up := links.Uplink(i); up > 0 {
			seconds = max(seconds, all/up/1000)
		}
	}
	e.Takes = time.Duration(seconds * float64(time.Second))
	return e
}

// loads is how many bytes each peer of a plan sends each other one.
func (p Params) loads(plan slot.Plan) [][]float64 {
	g, outcome := NewGrid(p, plan.Fragment), OutcomeGrid(p, plan.Fragment)
	loads := make([][]float64, len(plan.Offers))
	for i := range loads {
		loads[i] = make([]float64, len(plan.Offers))
	}
	if circle := plan.Circle(); len(circle) > 0 {
		bytes := p.ringLoad(len(circle)) * float64(g.TotalBytes)
		for i, from := range circle {
			if to := circle[(i+1)%len(circle)]; to != from {
				loads[from][to] = bytes
			}
		}
		return loads
	}
	for _, piece := range plan.Pieces {
		owner, elements := plan.Place(piece.Owner), int(piece.Range.Len())
		for i := range loads {
			if i != owner && !plan.Gone.Has(i) {
				loads[i][owner] += float64(g.Codec.EncodedSize(elements))
				loads[owner][i] += float64(outcome.Codec.EncodedSize(elements))
			}
		}
	}
	return loads
}
