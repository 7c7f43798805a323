package figures

import (
	"math"
	"slices"
	"strings"

	"github.com/p2pdiloco/p2pdiloco/allreduce"
	"github.com/p2pdiloco/p2pdiloco/allreduce/internal/plan"
	"github.com/p2pdiloco/p2pdiloco/internal/kernel"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// Segment is what an owner has published of a range that it reduced.
type Segment struct {
	Owner  slot.PeerID
	Usual  uint64           // weight; see slot.Weighing
	Offers []slot.Offer     // of the contributors, in the order of their peers
	Rows   []slot.FigureRow // of its frames; valid
}

// Contribution is what the figures of one slot say of one peer's contribution. What is not known is
// NaN.
type Contribution struct {
	Peer slot.PeerID
	Norm float64 // Euclidean, over what is published
	// Ratio is the norm over the median of all contributors' norms.
	Ratio float64
	// Cosine is that of the angle to the outcome without the contributor's own part: exactly for
	// the mean. For a trimmed mean and a median its own part is taken to be its values times the
	// share of the coordinates at which they were kept, over the number of values kept.
	Cosine  float64
	Trimmed float64 // share of the coordinates at which it was left out
	Clip    float64 // mean factor by which it was clipped; 1 where it was not
}

// Sum sums up the figures of a slot, of the contributors in the order of their peers. Segments
// whose offers the run could not aggregate say nothing.
func Sum(p allreduce.Params, slotNumber uint64, segments []Segment) []Contribution {
	owners := map[slot.PeerID]map[slot.PeerID]*sums{}
	for _, s := range segments {
		if owners[s.Owner] == nil {
			owners[s.Owner] = map[slot.PeerID]*sums{}
		}
		if agg, err := plan.NewAggregation(p, slotNumber, s.Usual, s.Offers); err == nil {
			add(owners[s.Owner], s, agg)
		}
	}
	parts, norms := map[slot.PeerID][]Contribution{}, map[slot.PeerID]float64{}
	for _, of := range owners {
		middle := medianNorm(of)
		for peer, s := range of {
			parts[peer] = append(parts[peer], s.contribution(middle))
			norms[peer] += s.norm
		}
	}
	var all []Contribution
	for peer, part := range parts {
		c := medians(part)
		c.Peer, c.Norm = peer, math.Sqrt(norms[peer])
		all = append(all, c)
	}
	slices.SortFunc(all, func(a, b Contribution) int { return strings.Compare(string(a.Peer), string(b.Peer)) })
	return all
}

// sums are of one contributor's frames at one owner.
type sums struct {
	norm          float64 // squared
	dot, rest     float64 // with the outcome without its own part, and the squared norm of that
	whole         float64 // squared norm of the outcome
	clip, trimmed float64
	frames        float64
}

func add(to map[slot.PeerID]*sums, s Segment, agg *plan.Aggregation) {
	n := len(s.Offers)
	kept := 1.0
	if agg.Kind != allreduce.Mean { // else scales are shares
		kept = float64(len(agg.Counted) - 2*agg.Trim)
	}
	squares, used, clip := make([]float64, n), make([]float64, n), make([]float32, n)
	for _, row := range s.Rows {
		for i, f := range row.Of {
			squares[i] = float64(f.Norm) * float64(f.Norm)
		}
		factors := kernel.ClipScales(plan.Pick(agg, nil, squares))
		for i := range clip {
			clip[i] = 1
		}
		for k, i := range agg.Counted { // the others have no part in the outcome
			if agg.Clip {
				clip[i] = factors[k]
			}
			used[i] = float64(agg.Scale[k]) * float64(clip[i]) / kept
		}
		for i, f := range row.Of {
			of := to[s.Offers[i].Peer]
			if of == nil {
				of = &sums{}
				to[s.Offers[i].Peer] = of
			}
			trimmed := float64(f.Trimmed) / slot.FigureScale
			own := used[i] * (1 - trimmed)
			of.add(f, float64(row.Norm), squares[i], own)
			of.clip, of.trimmed = of.clip+float64(clip[i]), of.trimmed+trimmed
		}
	}
}

// add takes in a frame, of whose outcome own times the contribution is the contributor's part.
func (s *sums) add(f slot.Figure, outcome, square, own float64) {
	dot := float64(f.Along) * outcome
	s.norm += square
	s.dot += dot - own*square
	s.rest += outcome*outcome - 2*own*dot + own*own*square
	s.whole += outcome * outcome
	s.frames++
}

// leastRest is the least share of the outcome's squared norm that must be the others' part: below
// it, that is rounding.
const leastRest = 1e-6

func (s *sums) contribution(medianNorm float64) Contribution {
	c := Contribution{
		Ratio: math.NaN(), Cosine: math.NaN(), Trimmed: s.trimmed / s.frames, Clip: s.clip / s.frames,
	}
	if medianNorm > 0 {
		c.Ratio = math.Sqrt(s.norm) / medianNorm
	}
	if s.norm > 0 && s.rest > leastRest*s.whole {
		c.Cosine = max(-1, min(1, s.dot/math.Sqrt(s.norm)/math.Sqrt(s.rest)))
	}
	return c
}

func medianNorm(of map[slot.PeerID]*sums) float64 {
	var norms []float64
	for _, s := range of {
		norms = append(norms, math.Sqrt(s.norm))
	}
	return median(norms)
}

// medians takes each figure's median over the owners that have one.
func medians(parts []Contribution) Contribution {
	of := func(get func(Contribution) float64) float64 {
		var all []float64
		for _, p := range parts {
			all = append(all, get(p))
		}
		return median(all)
	}
	return Contribution{
		Ratio:   of(func(c Contribution) float64 { return c.Ratio }),
		Cosine:  of(func(c Contribution) float64 { return c.Cosine }),
		Trimmed: of(func(c Contribution) float64 { return c.Trimmed }),
		Clip:    of(func(c Contribution) float64 { return c.Clip }),
	}
}

// median is that of the numbers that are known; NaN if none is.
func median(x []float64) float64 {
	x = slices.DeleteFunc(slices.Clone(x), math.IsNaN)
	if len(x) == 0 {
		return math.NaN()
	}
	slices.Sort(x)
	return (x[(len(x)-1)/2] + x[len(x)/2]) / 2
}
