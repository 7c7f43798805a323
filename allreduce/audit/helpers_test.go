package audit

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/allreduce"
	"github.com/p2pdiloco/p2pdiloco/allreduce/codec"
	"github.com/p2pdiloco/p2pdiloco/allreduce/internal/plan"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

const testSlot = 7

func testParams(elements, frame int) allreduce.Params {
	return allreduce.Params{
		Fragments: []uint64{uint64(elements)}, FrameElements: frame, Aggregator: allreduce.TrimmedMean,
		TrimPermille: 200, Clip: true, Discount: []uint32{1000, 500, 250}, Codec: codec.F32,
	}
}

// eachKind calls f for each aggregator, codec and clip.
func eachKind(elements, frame int, f func(name string, p allreduce.Params)) {
	for _, agg := range allreduce.Aggregators() {
		for _, c := range codec.Names() {
			for _, clip := range []bool{false, true} {
				p := testParams(elements, frame)
				p.Aggregator, p.Codec, p.Clip = agg, c, clip
				f(fmt.Sprintf("%s %s clip=%v", agg, c, clip), p)
			}
		}
	}
}

// world is a segment, what went into it, and what an honest owner makes of it.
type world struct {
	*Segment
	own     []*allreduce.Contribution
	outcome []byte // of the whole fragment
}

func peerName(i int) slot.PeerID { return slot.PeerID(fmt.Sprintf("peer-%02d", i)) }

// newWorld reduces vectors, one a peer, in a segment of frames [first, last).
func newWorld(t testing.TB, p allreduce.Params, vectors [][]float32, first, last int) *world {
	t.Helper()
	w, err := makeWorld(p, vectors, first, last)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func makeWorld(p allreduce.Params, vectors [][]float32, first, last int) (*world, error) {
	w, st := &world{}, Statement{Owner: peerName(0), Slot: testSlot}
	for i, v := range vectors {
		c, err := allreduce.Encode(p, 0, peerName(i), v, nil)
		if err != nil {
			return nil, err
		}
		w.own = append(w.own, c)
		st.Offers = append(st.Offers, slot.Offer{
			Peer: peerName(i), Slot: testSlot, Seq: 1, Base: testSlot - 1 - uint64(i%len(p.Discount)),
			Weight: uint64(1 + i), Root: c.Root(), NormSq: c.NormSq(),
		})
	}
	st.Range = plan.NewGrid(p, 0).Elements(first, last)
	var err error
	if w.Segment, err = New(p, st); err != nil {
		return nil, err
	}
	w.reduce()
	return w, nil
}

// reduce does what an owner does.
func (w *world) reduce() {
	agg := w.aggregation()
	w.outcome = make([]byte, w.out.TotalBytes)
	for f := range w.in.Frames {
		var cols [][]float32
		for _, c := range w.own {
			v := make([]float32, w.in.FrameLen(f))
			if err := w.in.Codec.Decode(v, w.in.Frame(c.Bytes(), f)); err != nil {
				panic(err)
			}
			cols = append(cols, v)
		}
		sum := make([]float32, w.in.FrameLen(f))
		agg.Frame(sum, cols, w.norms(f))
		w.out.Codec.Append(w.out.Frame(w.outcome, f)[:0], sum)
	}
	w.sign()
}

// sign has the owner sign the outcome as it is.
func (w *world) sign() {
	first, last := w.out.FramesOf(w.Range)
	w.Root = slot.FrameRoot(w.hashes(), w.out.FrameBytes, uint64(w.out.Size(first, last)))
}

func (w *world) hashes() []slot.Root {
	first, last := w.out.FramesOf(w.Range)
	return slot.FrameHashes(w.out.Bytes(w.outcome, first, last), w.out.FrameBytes)
}

func (w *world) norms(f int) (norms []float64) {
	for _, c := range w.own {
		norms = append(norms, c.Leaves()[f].NormSq)
	}
	return norms
}

// decoded is frame f of the outcome.
func (w *world) decoded(f int) []float32 {
	v := make([]float32, w.out.FrameLen(f))
	if err := w.out.Codec.Decode(v, w.out.Frame(w.outcome, f)); err != nil {
		panic(err)
	}
	return v
}

// openings are what the contributors show of a range.
func (w *world) openings(t testing.TB, r slot.Range) (os []Opening) {
	t.Helper()
	for _, c := range w.own {
		o, err := OpenContribution(w.Params, 0, c, r)
		if err != nil {
			t.Fatal(err)
		}
		os = append(os, o)
	}
	return os
}

func (w *world) opened(t testing.TB, r slot.Range) Opening {
	t.Helper()
	at, err := w.span(r)
	if err != nil {
		t.Fatal(err)
	}
	o, err := w.OpenOutcome(w.hashes(), w.out.Frame(w.outcome, at.frame), r)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// bytes are those of the outcome in a range of one frame.
func (w *world) bytes(r slot.Range) []byte {
	at, err := w.span(r)
	if err != nil {
		panic(err)
	}
	begin, end := bytesOf(w.out, at)
	return w.out.Frame(w.outcome, at.frame)[begin:end]
}

func noise(rng *rand.Rand, elements, n int) [][]float32 {
	vectors := make([][]float32, n)
	for i := range vectors {
		vectors[i] = make([]float32, elements)
		for j := range vectors[i] {
			vectors[i][j] = float32(rng.NormFloat64())
		}
	}
	return vectors
}

// shapes are inputs that put a bound to the test, besides noise.
func shapes(rng *rand.Rand, elements, n int) map[string][][]float32 {
	all := map[string][][]float32{"noise": noise(rng, elements, n)}
	fill := func(name string, f func(i, j int) float64) {
		vectors := make([][]float32, n)
		for i := range vectors {
			vectors[i] = make([]float32, elements)
			for j := range vectors[i] {
				vectors[i][j] = float32(f(i, j))
			}
		}
		all[name] = vectors
	}
	fill("zeros", func(_, _ int) float64 { return 0 })
	fill("equal", func(_, j int) float64 { return math.Sin(float64(j)) })
	fill("each its own coordinates", func(i, j int) float64 { return float64(boolInt(j%n == i)) })
	fill("half up, half down", func(i, j int) float64 { return float64(2*boolInt(i < n/2) - 1) })
	fill("more than half agree", func(i, j int) float64 { return float64(boolInt((i+j)%n <= n/2)) })
	fill("some agree", func(i, j int) float64 { return float64(boolInt((i+j)%n <= n/4)) })
	for steps, r := range map[float64]float64{7: 1, 127: 8} { // the worst for int4 and int8
		fill(fmt.Sprint("rounded up from below ", r), func(_, j int) float64 {
			if j%256 == 0 {
				return steps
			}
			return r - 0.49999
		})
	}
	fill("one in a block", func(i, j int) float64 { return float64(boolInt(j%1024 == 5)) })
	fill("subnormal", func(i, j int) float64 { return float64(i+j%3) * 0x1p-149 })
	fill("tiny", func(i, j int) float64 { return rng.NormFloat64() * 0x1p-70 })
	fill("huge", func(i, j int) float64 { return rng.NormFloat64() * 0x1p90 })
	fill("first is a million times the others", func(i, _ int) float64 {
		return rng.NormFloat64() * (1 + 1e6*float64(boolInt(i == 0)))
	})
	fill("a third is, and up", func(i, _ int) float64 { return rng.NormFloat64() + 1e6*float64(boolInt(3*i < n)) })
	return all
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

func slotRange(p allreduce.Params) slot.Range { return slot.Range{End: p.Fragments[0]} }

func offers(n int) (os []slot.Offer) {
	for i := range n {
		os = append(os, slot.Offer{Peer: peerName(i), Slot: testSlot, Base: testSlot - 1, Weight: 1})
	}
	return os
}
