package allreduce

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/allreduce/codec"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// checkFigures compares what owners publish with a naive computation: at every peer that has the
// pieces from their owners, and under the roots that the owners state.
func (g *group) checkFigures() {
	g.t.Helper()
	for _, s := range g.outcome() {
		var peers []slot.PeerID
		var vectors [][]float32
		var offers []slot.Offer
		for i, o := range g.plan.Offers {
			if s.Contributors.Has(i) {
				peers, vectors, offers = append(peers, o.Peer), append(vectors, g.vectors[i]), append(offers, o)
			}
		}
		for i, r := range g.running {
			rows, ok := r.Figures(s.Range, peers)
			if !ok {
				g.t.Fatalf("peer %d has no figures of %v", i, s.Range)
			}
			owner := g.sinks[g.plan.Place(g.plan.Pieces[g.plan.PieceAt(s.Range.Begin)].Owner)]
			owner.mu.Lock()
			stated := owner.mu.figures[s.Range]
			owner.mu.Unlock()
			if root := slot.FiguresRoot(rows); root != stated || root.IsZero() {
				g.t.Fatalf("peer %d has figures %s of %v, not %s", i, root.Short(), s.Range, stated.Short())
			}
			encoded, _ := r.Result(s.Range)
			values := make([]float32, s.Range.Len())
			if err := r.out.Codec.Decode(values, encoded); err != nil {
				g.t.Fatal(err)
			}
			for k, row := range rows {
				begin := k * g.params.FrameElements
				end := min(begin+g.params.FrameElements, len(values))
				var cols [][]float32
				for _, v := range vectors {
					cols = append(cols, v[int(s.Range.Begin)+begin:int(s.Range.Begin)+end])
				}
				g.checkRow(row, cols, values[begin:end], offers)
			}
		}
	}
}

// checkRow compares a row with what plain loops give.
func (g *group) checkRow(row slot.FigureRow, cols [][]float32, outcome []float32, offers []slot.Offer) {
	g.t.Helper()
	norm := dot(outcome, outcome)
	same := func(what string, got float32, want float64) {
		g.t.Helper()
		if math.Abs(float64(got)-want) > 1e-6*(math.Abs(want)+math.Sqrt(norm)*1e-3)+1e-30 {
			g.t.Fatalf("%s is %v, want %v", what, got, want)
		}
	}
	same("the norm of the outcome", row.Norm, math.Sqrt(norm))
	trimmed := g.trimmedShares(cols, offers)
	for i, c := range cols {
		f := row.Of[i]
		same("a norm", f.Norm, math.Sqrt(dot(c, c)))
		if norm > 0 {
			same("a product", f.Along, dot(c, outcome)/math.Sqrt(norm))
		}
		// counted at some coordinates: six standard deviations, and where there are very few, any
		most := 6*math.Sqrt(.25/max(1, float64(len(outcome)/trimStride))) + .001
		if got := float64(f.Trimmed) / slot.FigureScale; math.Abs(got-trimmed[i]) > most {
			g.t.Fatalf("%v of contributor %d is said to be trimmed, want %v within %v", got, i, trimmed[i], most)
		}
		if f.Measured() {
			same("a product with the outcome before", f.Before, dot(c, before(len(c)))/math.Sqrt(float64(len(c))))
			g.measured++
		}
	}
}

// before is a frame of the outcome before.
func before(n int) []float32 {
	x := make([]float32, n)
	for j := range x {
		x[j] = float32(1 - 2*(j%2))
	}
	return x
}

func dot(x, y []float32) (sum float64) {
	for j := range x {
		sum += float64(x[j]) * float64(y[j])
	}
	return sum
}

// trimmedShares are the shares of the coordinates at which a contributor is among the lowest or
// highest that are left out.
func (g *group) trimmedShares(cols [][]float32, offers []slot.Offer) []float64 {
	k := map[Aggregator]int{
		TrimmedMean: g.params.TrimPermille * len(cols) / 1000, Median: (len(cols) - 1) / 2,
	}[g.params.Aggregator]
	sub, plan := g.params, g.plan
	plan.Offers = offers
	scale := referenceScale(sub, plan)
	if g.params.Clip {
		for i, c := range referenceClip(cols, 0, len(cols[0])) {
			scale[i] = float32(scale[i] * c)
		}
	}
	shares := make([]float64, len(cols))
	for j := range cols[0] {
		var values []float32
		for i, c := range cols {
			values = append(values, float32(scale[i]*c[j]))
		}
		sorted := slices.Sorted(slices.Values(values))
		for i, v := range values {
			if v < sorted[k] || v > sorted[len(sorted)-1-k] {
				shares[i] += 1 / float64(len(cols[0]))
			}
		}
	}
	return shares
}

// What owners publish is true for all codecs and aggregators, with frames of one part and of many.
func TestFigures(t *testing.T) {
	names := codec.Names()
	if testing.Short() { // as with the race detector: figures go the same way for all codecs
		names = names[:1]
	}
	for _, name := range names {
		for _, aggregator := range Aggregators() {
			for _, clip := range []bool{false, true} {
				t.Run(fmt.Sprint(name, " ", aggregator, " clip ", clip), func(t *testing.T) {
					p := testParams(40_000, 2*partElements)
					p.Codec, p.Aggregator, p.Clip = name, aggregator, clip
					g := newGroup(t, p, 5, rand.New(rand.NewPCG(3, 1)), func(c *Config) {
						c.Before = func(_ uint64, _ uint32, _ int, values []float32) bool {
							return copy(values, before(len(values))) > 0
						}
					})
					g.startAll()
					g.wait()
					g.check()
					g.checkFigures()
					if g.measured == 0 {
						t.Error("nothing is compared with the outcome before")
					}
				})
			}
		}
	}
}
