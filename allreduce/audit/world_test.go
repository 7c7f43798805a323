package audit

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/allreduce"
	"github.com/p2pdiloco/p2pdiloco/allreduce/codec"
	"github.com/p2pdiloco/p2pdiloco/allreduce/internal/plan"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/testutil"
	"github.com/p2pdiloco/p2pdiloco/internal/wire"
)

func init() { testutil.OneCPU() }

const testSlot = 7

func testParams(elements, frame int) allreduce.Params {
	return allreduce.Params{
		Fragments: []uint64{uint64(elements)}, FrameElements: frame, Aggregator: allreduce.TrimmedMean,
		TrimPermille: 200, Clip: true, Discount: []uint32{1000, 500, 250}, Codec: codec.F32,
	}
}

// eachKind calls f for each aggregator, codec and clip.
func eachKind(elements, frame int, f func(name string, p allreduce.Params)) {
	for _, agg := range plan.Aggregators() {
		for i, c := range append(codec.Names(), codec.Names()...) {
			if agg != allreduce.Mean && c == codec.TopK {
				continue
			}
			p := testParams(elements, frame)
			p.Aggregator, p.Codec, p.Clip = agg, c, 2*i >= len(codec.Names())
			if c == codec.TopK {
				p.Outcome = codec.FormatTopK(256, 4)
			}
			f(fmt.Sprintf("%s %s clip=%v", agg, c, p.Clip), p)
		}
	}
}

// failer is a test of package testing, or of rapid.
type failer interface{ Fatal(args ...any) }

// world is a segment, what went into it, and what an honest owner makes of it.
type world struct {
	*Segment
	t       failer
	own     []*allreduce.Contribution
	outcome []byte // of the whole fragment
}

func peerName(i int) slot.PeerID { return slot.PeerID(fmt.Sprintf("peer-%02d", i)) }

func (w *world) must(err error) {
	if err != nil {
		w.t.Fatal(err)
	}
}

// newWorld reduces vectors, one a peer, in a segment of frames [first, last).
func newWorld(t failer, p allreduce.Params, vectors [][]float32, first, last int) *world {
	w, st := &world{t: t}, Statement{Owner: peerName(0), Slot: testSlot}
	for i, v := range vectors {
		c, err := allreduce.Encode(p, 0, peerName(i), allreduce.Vector(v), nil)
		w.must(err)
		w.own = append(w.own, c)
		st.Offers = append(st.Offers, slot.Offer{
			Peer: peerName(i), Slot: testSlot, Seq: 1, Base: testSlot - 1 - uint64(i%len(p.Discount)),
			Weight: uint64(1 + i), Root: c.Root(), NormSq: c.NormSq(),
		})
	}
	st.Range = plan.NewGrid(p, 0).Elements(first, last)
	var err error
	w.Segment, err = New(p, st)
	w.must(err)
	w.reduce()
	return w
}

// reduce does what an owner does.
func (w *world) reduce() {
	agg := w.aggregation()
	w.outcome = make([]byte, w.out.TotalBytes)
	for f := range w.in.Frames {
		var cols [][]float32
		for i := range w.own {
			cols = append(cols, w.values(i, f))
		}
		sum := make([]float32, w.in.FrameLen(f))
		agg.Frame(sum, cols, w.norms(f))
		w.out.Codec.Append(w.out.Frame(w.outcome, f)[:0], sum)
	}
	w.sign()
}

// values decodes frame f of what a peer has contributed.
func (w *world) values(place, f int) []float32 {
	v := make([]float32, w.in.FrameLen(f))
	w.must(w.in.Codec.Decode(v, w.in.Frame(w.own[place].Bytes(), f)))
	return v
}

// decoded is frame f of the outcome.
func (w *world) decoded(f int) []float32 {
	v := make([]float32, w.out.FrameLen(f))
	w.must(w.out.Codec.Decode(v, w.out.Frame(w.outcome, f)))
	return v
}

// sign has the owner sign the outcome as it is.
func (w *world) sign() {
	first, last := w.out.FramesOf(w.Range)
	w.Root = slot.FrameRoot(w.hashes(), w.out.FrameBytes, uint64(w.out.Size(first, last)))
}

func (w *world) hashes() []slot.Root {
	first, last := w.out.FramesOf(w.Range)
	return slot.Cut(w.out.Bytes(w.outcome, first, last), w.out.FrameBytes).Hashes
}

func (w *world) norms(f int) (norms []float64) {
	for _, c := range w.own {
		norms = append(norms, c.Leaves()[f].NormSq)
	}
	return norms
}

// openings are what the contributors show of a range.
func (w *world) openings(r slot.Range) (os []Opening) {
	for _, c := range w.own {
		o, err := OpenContribution(w.Params, 0, c, r)
		w.must(err)
		os = append(os, o)
	}
	return os
}

// opened is what the owner shows of a range.
func (w *world) opened(r slot.Range) Opening {
	at, err := w.span(r)
	w.must(err)
	o, err := w.OpenOutcome(w.hashes(), w.out.Frame(w.outcome, at.frame), r)
	w.must(err)
	return o
}

// bytes are those of the outcome in a range of one frame.
func (w *world) bytes(r slot.Range) []byte {
	at, err := w.span(r)
	w.must(err)
	begin, end := bytesOf(w.out, at)
	return w.out.Frame(w.outcome, at.frame)[begin:end]
}

// proofs are those of each kind that would convict an honest peer if it had lied.
func (w *world) proofs() []Proof {
	frame := w.in.Elements(1, 2)
	r := slot.Range{Begin: frame.Begin, End: min(frame.Begin+uint64(w.unit()), frame.End)}
	last := len(w.own) - 1
	return []Proof{
		{Kind: FalseOutcome, Statement: w.Statement, Outcome: w.opened(r), Openings: w.openings(r)},
		{Kind: FalseContribution, Offer: w.Offers[last], Openings: w.openings(r)[last:]},
		{Kind: FalseTotal, Offer: w.Offers[last], Leaves: w.own[last].Leaves()},
	}
}

// convicts has a proof travel and convict.
func convicts(t testing.TB, p allreduce.Params, proof Proof, guilty slot.PeerID) {
	t.Helper()
	b := proof.Append(nil)
	// of an outcome; else a frame, or what is committed to
	most := 4 << 10 * (1 + len(proof.Statement.Offers))
	fragment := slot.FragmentOf(max(1, proof.Offer.Slot), uint64(len(p.Fragments)))
	if in := gridsOf(p, fragment).in; proof.Kind != FalseOutcome {
		most += max(in.FrameBytes, slot.FrameLeafSize*in.Frames)
	}
	if len(b) > most {
		t.Errorf("a proof of %d bytes, more than %d", len(b), most)
	}
	read, err := ReadProof(b)
	if err != nil || read.Hash() != proof.Hash() {
		t.Fatalf("a proof that travelled has another hash: %v", err)
	}
	if got, err := read.Verify(p); err != nil || len(got) != 1 || got[0] != guilty {
		t.Errorf("it convicts %v, %v, want %v", got, err, guilty)
	}
}

// wired is an opening as it comes out of the encoding.
func (w *world) wired(o Opening) Opening {
	most := MaxOpening(w.Params, 0, false)
	b := o.Append(nil)
	if len(b) > most {
		w.t.Fatal("an opening of ", len(b), " bytes, said to be at most ", most)
	}
	r := wire.NewReader(b)
	got := ReadOpening(r, most)
	w.must(r.Done())
	return got
}

// vectors are n of so many elements, as f says.
func vectors(elements, n int, f func(i, j int) float64) [][]float32 {
	all := make([][]float32, n)
	for i := range all {
		all[i] = make([]float32, elements)
		for j := range all[i] {
			all[i][j] = float32(f(i, j))
		}
	}
	return all
}

func noise(rng *rand.Rand, elements, n int) [][]float32 {
	return vectors(elements, n, func(_, _ int) float64 { return rng.NormFloat64() })
}
