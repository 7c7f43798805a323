package allreduce

import (
	"math"

	"github.com/p2pdiloco/p2pdiloco/allreduce/codec"
	"github.com/p2pdiloco/p2pdiloco/allreduce/internal/plan"
	"github.com/p2pdiloco/p2pdiloco/internal/kernel"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// Owners measure what they reduce (slot.FigureRow): of each contributor's frame the norm, which
// they know anyway, its scalar product with the outcome, and the share that was trimmed. A frame is
// reduced, encoded and measured in parts that stay in the processor's cache, so that no column is
// read from memory a second time.
const (
	// partElements is a multiple of all codecs' blocks and of the lanes of kernel.DotSum.
	partElements = 1 << 12
	// trimStride is how far apart the coordinates are at which trimmed values are counted.
	trimStride = 1 << 9
)

// gauge reduces and measures the frames of a range.
type gauge struct {
	agg     *plan.Aggregation
	codec   codec.Codec // of the outcome
	part    [][]float32 // of the columns
	along   []kernel.DotSum
	norm    kernel.DotSum // of the outcome
	trimmed []uint32
	counted int
	sorted  []float32
	decoded []float32
}

func newGauge(agg *plan.Aggregation, c codec.Codec, contributors int) *gauge {
	return &gauge{
		agg: agg, codec: c, part: make([][]float32, contributors), along: make([]kernel.DotSum, contributors),
		trimmed: make([]uint32, contributors), sorted: make([]float32, contributors),
	}
}

// reduce puts the encoded aggregate of a frame into out. sum is room for its values. at says which
// coordinates are looked at for trimmed values. lie is Config.Reduced: it wants the frame whole.
func (g *gauge) reduce(out []byte, sum []float32, cols [][]float32, norms []float64, at int,
	lie func(values []float32),
) slot.FigureRow {
	g.begin(norms)
	step := partElements
	if lie != nil {
		step = len(sum)
	}
	for begin := 0; begin < len(sum); begin += step {
		end := min(begin+step, len(sum))
		for i, c := range cols {
			g.part[i] = c[begin:end]
		}
		g.agg.Part(sum[begin:end], g.part)
		if lie != nil {
			lie(sum)
		}
		from, to := g.codec.EncodedSize(begin), g.codec.EncodedSize(end)
		g.codec.Append(out[from:from], sum[begin:end])
		g.measure(g.decode(out[from:to], sum[begin:end]), at)
	}
	return g.row(norms)
}

func (g *gauge) begin(norms []float64) {
	g.agg.Begin(norms)
	clear(g.along)
	clear(g.trimmed)
	g.norm, g.counted = kernel.DotSum{}, 0
}

// decode is what everybody decodes from a part of the outcome, given its values.
func (g *gauge) decode(encoded []byte, values []float32) []float32 {
	if !g.codec.Lossy() {
		return values
	}
	if cap(g.decoded) < len(values) {
		g.decoded = make([]float32, len(values))
	}
	g.decoded = g.decoded[:len(values)]
	if err := g.codec.Decode(g.decoded, encoded); err != nil {
		panic("allreduce: what was encoded does not decode: " + err.Error())
	}
	return g.decoded
}

// measure takes in a part of a frame, of which part has the columns.
func (g *gauge) measure(outcome []float32, at int) {
	g.norm.Add(outcome, outcome)
	for i, c := range g.part {
		g.along[i].Add(c, outcome)
	}
	if g.agg.Trims() == 0 {
		return
	}
	for j := at % trimStride; j < len(outcome); j += trimStride {
		g.agg.CountTrimmed(g.trimmed, g.sorted, g.part, j)
		g.counted++
	}
}

// row is what was measured of a frame.
func (g *gauge) row(norms []float64) slot.FigureRow {
	norm := g.norm.Value()
	row := slot.FigureRow{Norm: Rounded(norm), Of: make([]slot.Figure, len(norms))}
	for i := range row.Of {
		f := &row.Of[i]
		f.Norm, f.Along = Rounded(norms[i]), Along(g.along[i].Value(), norm)
		if g.counted > 0 {
			f.Trimmed = uint16(uint64(g.trimmed[i]) * slot.FigureScale / uint64(g.counted))
		}
	}
	return row
}

// Rounded is the norm of a squared norm, as figures have it.
func Rounded(normSq float64) float32 { return float32(math.Sqrt(normSq)) }

// Along is a scalar product over the norm of the other vector, as figures have it; 0 where that is
// zero.
func Along(dot, normSq float64) float32 {
	if normSq == 0 {
		return 0
	}
	return float32(dot / math.Sqrt(normSq))
}
