package allreduce

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/allreduce/codec"
	"github.com/p2pdiloco/p2pdiloco/allreduce/internal/plan"
	"github.com/p2pdiloco/p2pdiloco/internal/kernel"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// BenchmarkFigures reduces and encodes a frame of 64 Ki elements as an owner does (measured), and
// without its figures (bare): ratio of the two is what figures cost of the reduction. Throughput
// counts the columns once. Each frame is another one of 64 MiB, as in a reduction.
func BenchmarkFigures(b *testing.B) {
	for _, n := range []int{4, 8, 16} {
		for _, name := range []string{codec.F32, codec.Int4} {
			for _, a := range []Aggregator{TrimmedMean, Mean} {
				for _, measured := range []bool{false, true} {
					kind := map[bool]string{false: "bare", true: "measured"}[measured]
					b.Run(fmt.Sprintf("n=%d/%s/%s/%s", n, name, a, kind), func(b *testing.B) {
						benchmarkFigures(b, n, name, a, measured)
					})
				}
			}
		}
	}
}

func benchmarkFigures(b *testing.B, n int, name string, a Aggregator, measured bool) {
	const elements = 1 << 16
	p := testParams(elements, elements)
	p.Codec, p.Aggregator, p.Clip = name, a, a.DefaultClip()
	rng := rand.New(rand.NewPCG(1, 1))
	offers, norms := make([]slot.Offer, n), make([]float64, n)
	frames := make([][][]float32, (16<<20)/elements/n)
	for f := range frames {
		frames[f] = make([][]float32, n)
		for i := range n {
			offers[i] = slot.Offer{Peer: peerName(i), Slot: 2, Base: 1, Weight: 1}
			frames[f][i] = make([]float32, elements)
			for j := range frames[f][i] {
				frames[f][i][j] = rng.Float32() - .5
			}
			norms[i] = kernel.NormSq(frames[f][i])
		}
	}
	agg, err := plan.NewAggregation(p, 2, 0, offers)
	if err != nil {
		b.Fatal(err)
	}
	out := plan.OutcomeGrid(p, 0)
	encoded, sum, g := make([]byte, out.TotalBytes), make([]float32, elements), newGauge(agg, out.Codec, n, elements, 0)
	b.SetBytes(int64(n) * 4 * elements)
	at := 0
	for b.Loop() {
		cols := frames[at%len(frames)]
		if at++; measured {
			g.reduce(encoded, sum, cols, norms, at, nil)
			continue
		}
		agg.Frame(sum, cols, norms)
		out.Codec.Append(encoded[:0], sum)
	}
}
