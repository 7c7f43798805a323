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
	if g.agg.Trim == 0 {
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

// cosineFrames is the greatest number of frames of a piece whose contributions are compared. The
// figure is for people that watch a run, so few frames do.
const cosineFrames = 4

// compare takes in how alike the contributions to frame f are, if that is one of those chosen: at
// equal distances over the piece. It only reads.
func (p *ownPiece) compare(f int, cols [][]float32) {
	if !p.chosen(f) {
		return
	}
	c, ok := pairCosine(cols)
	if !ok {
		return
	}
	p.r.mu.Lock()
	defer p.r.mu.Unlock()
	p.of.cosines.sum += c
	p.of.cosines.n++
}

// chosen says whether frame f is one of those that are compared.
func (p *ownPiece) chosen(f int) bool {
	stride := (p.last - p.first + cosineFrames - 1) / cosineFrames
	return (f-p.first)%stride == stride/2
}

// Cosine is the mean cosine over all pairs of contributions, on some frames of what was reduced
// here so far; NaN if there are none.
func (r *Reduction) Cosine() float64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	rot, _ := r.schedule.(*rotation)
	if rot == nil {
		return math.NaN()
	}
	return rot.cosines.sum / float64(rot.cosines.n)
}

// pairCosine is the mean cosine of all pairs of columns, vectors of equal length. Columns that are
// zero do not count, and ok is false if fewer than two others are there. The time is linear in the
// number of columns, although the number of pairs is not: the square of the sum of unit vectors
// contains all pairs, |u_1 + ... + u_n|^2 = n + the sum over all ordered pairs of u_i·u_j.
func pairCosine(cols [][]float32) (c float64, ok bool) {
	units := make([]float64, 0, len(cols)) // 1/norm of the columns that count
	var counted [][]float32
	for _, c := range cols {
		if square := kernel.NormSq(c); square > 0 {
			counted, units = append(counted, c), append(units, 1/math.Sqrt(square))
		}
	}
	n := float64(len(counted))
	if n < 2 {
		return 0, false
	}
	return max(-1, min(1, (sumSquare(counted, units)-n)/(n*(n-1)))), true
}

// sumSquare is the squared norm of the columns' sum, each scaled.
func sumSquare(cols [][]float32, scale []float64) (s float64) {
	for j := range cols[0] {
		var x float64
		for i, c := range cols {
			x += scale[i] * float64(c[j])
		}
		s += x * x
	}
	return s
}

// spread puts a row about some contributors of a group into one about all of it. Nothing is said of
// the others.
func spread(row slot.FigureRow, set []*input, group int) slot.FigureRow {
	all := slot.FigureRow{Norm: row.Norm, Of: make([]slot.Figure, group)}
	for i, in := range set {
		all.Of[in.place] = row.Of[i]
	}
	return all
}

// Figures is what the owner of a range has published of the contributions of some peers to it: a
// row for each frame; nil if no piece with this range in it has come from its owner or was reduced
// here, or the owner has published nothing.
func (r *Reduction) Figures(rng slot.Range, peers []slot.PeerID) []slot.FigureRow {
	r.mu.Lock()
	defer r.mu.Unlock()
	rot, _ := r.schedule.(*rotation)
	if rot == nil {
		return nil
	}
	for _, p := range rot.pieces {
		if p.holds(rng) {
			return p.pick(rng, peers)
		}
	}
	return nil
}

// holds says whether a piece is done and a range of whole frames lies in it. The reduction's mu is
// held.
func (p *piece) holds(rng slot.Range) bool {
	return p.status == pieceDone && p.Range.Begin <= rng.Begin && rng.End <= p.Range.End && p.r.grid.OnGrid(rng)
}

// pick takes out the rows of a range and the figures of some peers.
func (p *piece) pick(rng slot.Range, peers []slot.PeerID) (rows []slot.FigureRow) {
	r := p.r
	first, last := r.grid.FramesOf(rng)
	if len(p.figures) != p.last-p.first {
		return nil
	}
	for _, from := range p.figures[first-p.first : last-p.first] {
		row := slot.FigureRow{Norm: from.Norm, Of: make([]slot.Figure, len(peers))}
		for i, peer := range peers {
			place := r.mu.plan.Place(peer)
			if place < 0 {
				return nil
			}
			row.Of[i] = from.Of[place]
		}
		rows = append(rows, row)
	}
	return rows
}
