package audit

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/allreduce"
	"github.com/p2pdiloco/p2pdiloco/allreduce/codec"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/wire"
)

// Each sample of a segment, recomputed from openings that went over the wire, is what an honest
// owner has; all samples together are the segment.
func TestSamplesOfAnHonestOwner(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	eachKind(150_000, 65_536, func(name string, p allreduce.Params) {
		w := newWorld(t, p, noise(rng, 150_000, 3), 1, 3)
		at := w.Range.Begin
		for _, sample := range w.Samples(1<<30, nil) {
			r := sample.Range
			if r.Begin != at || r.End <= at {
				t.Fatalf("%s: sample %v begins elsewhere than at %d", name, r, at)
			}
			at = r.End
			first := slot.Range{Begin: r.Begin, End: min(r.Begin+uint64(w.unit()), r.End)}
			for _, asked := range []slot.Range{r, first} {
				if cost, err := Cost(p, 0, asked); err != nil || cost != r.Len() {
					t.Fatalf("%s: of %v, %v costs %d: %v", name, r, asked, cost, err)
				}
			}
			if size := len(w.bytes(r)); size > sampleBytes {
				t.Errorf("%s: sample of %d bytes", name, size)
			}
			openings := w.openings(t, r)
			for i, o := range openings {
				openings[i] = wired(t, o, MaxOpening(p, 0, false))
			}
			want, err := w.Recompute(r, openings)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			got, err := w.CheckOutcome(wired(t, w.opened(t, r), MaxOpening(p, 0, false)))
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if block, differs := w.Compare(r, want, got); differs || !slices.Equal(got, w.bytes(r)) {
				t.Errorf("%s: %v differs", name, block)
			}
		}
		if at != w.Range.End || w.SampleCount() != len(w.Samples(1<<30, nil)) {
			t.Errorf("%s: samples end at %d", name, at)
		}
	})
}

// wired is an opening as it comes out of the encoding.
func wired(t testing.TB, o Opening, most int) Opening {
	t.Helper()
	b := o.Append(nil)
	if len(b) > most {
		t.Errorf("an opening of %d bytes, said to be at most %d", len(b), most)
	}
	r := wire.NewReader(b)
	got := ReadOpening(r, most)
	if err := r.Done(); err != nil {
		t.Fatal(err)
	}
	return got
}

func TestSamplesAreDrawnWithoutRepetition(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	w := newWorld(t, testParams(300_000, 65_536), noise(rng, 300_000, 1), 1, 4)
	counts := map[uint64]int{}
	for range 2000 {
		samples := w.Samples(7, rng)
		seen := map[uint64]bool{}
		for _, s := range samples {
			counts[s.Range.Begin]++
			seen[s.Range.Begin] = true
		}
		if len(samples) != 7 || len(seen) != 7 {
			t.Fatalf("%d samples, %d different ones", len(samples), len(seen))
		}
	}
	if n := w.SampleCount(); n != 48 || len(counts) != n {
		t.Errorf("%d samples, of which %d were ever drawn", n, len(counts))
	}
	for at, n := range counts {
		if n < 200 || n > 390 { // 292 are expected
			t.Errorf("the sample at %d was drawn %d times", at, n)
		}
	}
	if got := w.Samples(0, rng); len(got) != 0 {
		t.Error("samples that nobody asked for")
	}
	for range 100 {
		at := w.Range.Begin + rng.Uint64N(w.Range.Len())
		frame := w.FrameAt(at).Range
		if f, err := w.within(frame); err != nil || !w.whole(f) || at < frame.Begin || at >= frame.End {
			t.Fatalf("a frame of %v, %v", f, err)
		}
		if cost, err := Cost(w.Params, 0, frame); err != nil || cost != frame.Len() {
			t.Fatalf("a frame of %d costs %d: %v", frame.Len(), cost, err)
		}
	}
}

// A whole frame shows whether the norm is true; so does a part that has more than the norm says.
func TestOpeningsShowFalseNorms(t *testing.T) {
	p := testParams(5000, 2048)
	const peer = 2
	w := newWorld(t, p, noise(rand.New(rand.NewPCG(1, 1)), 5000, 4), 0, 3)
	honest := w.own[peer]
	whole, part := slot.Range{Begin: 2048, End: 4096}, slot.Range{Begin: 2048, End: 2304}
	for _, c := range []struct {
		name            string
		times           float64
		byFrame, byPart bool
	}{
		{"true", 1, false, false},
		{"a little more", 1.001, true, false},
		{"nothing", 0, true, true},
		{"less", -1, true, true},
	} {
		w.own[peer] = honest
		leaves := slices.Clone(honest.Leaves())
		for f := range leaves {
			leaves[f].NormSq *= c.times
		}
		w.Offers[peer].Root = slot.ContributionRoot(peerName(peer), leaves, w.in.FrameBytes, uint64(w.in.TotalBytes))
		open := func(r slot.Range) Opening {
			o, err := OpenContribution(p, 0, honest, r)
			if err != nil {
				t.Fatal(err)
			}
			o.NormSq, o.Path = leaves[1].NormSq, slot.ContributionTree(leaves).Path(1)
			return o
		}
		for r, guilty := range map[slot.Range]bool{whole: c.byFrame, part: c.byPart} {
			o := open(r)
			_, err := w.CheckContribution(peer, o)
			var fault *Fault
			if got := errors.As(err, &fault) && fault.Proven; got != guilty || err != nil && !got {
				t.Errorf("%s, %v: %v", c.name, r, err)
			}
			proof, err := ProveContribution(p, w.Offers[peer], o)
			if (err == nil) != guilty {
				t.Errorf("%s, %v: proof: %v", c.name, r, err)
			} else if guilty {
				convicts(t, p, proof, peerName(peer))
			}
		}
		w.Offers[peer].Root, w.Offers[peer].NormSq = honest.Root(), honest.NormSq()
	}
}

// convicts has a proof travel and convict.
func convicts(t testing.TB, p allreduce.Params, proof Proof, want ...slot.PeerID) {
	t.Helper()
	b := proof.Append(nil)
	if most := MaxProof(p, len(proof.Openings)); len(b) > most {
		t.Errorf("a proof of %d bytes, said to be at most %d", len(b), most)
	}
	got, err := ReadProof(b)
	if err != nil {
		t.Fatal(err)
	}
	if got.Hash() != proof.Hash() {
		t.Error("a proof that travelled has another hash")
	}
	if guilty, err := got.Verify(p); err != nil || !slices.Equal(guilty, want) {
		t.Errorf("it convicts %v, %v, want %v", guilty, err, want)
	}
}

// What the owner of a reduction has met makes a proof, of a small part where that is enough.
func TestProveFrame(t *testing.T) {
	nan := []byte{0, 0, 0xc0, 0x7f}
	for _, c := range []struct {
		name, codec string
		spoil       func(frame []byte) float64 // and the norm that is committed to
		most        int                        // bytes of the proof
	}{
		{"NaN", codec.F32, func(b []byte) float64 { copy(b[4000:], nan); return 1e9 }, 2 << 10},
		{"no encoding", codec.Int8, func(b []byte) float64 { copy(b[520:], nan); return 1e9 }, 3 << 10},
		{"false norm", codec.F32, func([]byte) float64 { return 1e9 }, 9 << 10},
		{"honest", codec.F32, nil, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := testParams(5000, 2048)
			p.Codec = c.codec
			w := newWorld(t, p, noise(rand.New(rand.NewPCG(1, 1)), 5000, 2), 0, 3)
			leaves, b := slices.Clone(w.own[1].Leaves()), slices.Clone(w.in.Frame(w.own[1].Bytes(), 1))
			if c.spoil != nil {
				leaves[1].NormSq = c.spoil(b)
				leaves[1].Hash = slot.Hash(b)
			}
			offer := w.Offers[1]
			offer.Root = slot.ContributionRoot(offer.Peer, leaves, w.in.FrameBytes, uint64(w.in.TotalBytes))
			bad := &allreduce.BadFrame{
				Peer: offer.Peer, Frame: 1, Bytes: b, Leaf: leaves[1], Path: slot.ContributionTree(leaves).Path(1),
			}
			proof, err := ProveFrame(p, offer, bad)
			if c.spoil == nil {
				if !errors.Is(err, ErrProvesNothing) {
					t.Errorf("an honest frame: %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			convicts(t, p, proof, offer.Peer)
			if n := len(proof.Append(nil)); n > c.most {
				t.Errorf("a proof of %d bytes", n)
			}
			other := offer
			other.Peer = peerName(5)
			if _, err := ProveFrame(p, other, bad); !errors.Is(err, ErrProvesNothing) {
				t.Errorf("it convicts another peer: %v", err)
			}
		})
	}
}

// A peer that states another norm of all than those of its frames add up to is convicted by these.
func TestProveTotal(t *testing.T) {
	p := testParams(5000, 2048)
	w := newWorld(t, p, noise(rand.New(rand.NewPCG(1, 1)), 5000, 2), 0, 3)
	leaves := w.own[1].Leaves()
	for _, norm := range []float64{0, 1e9, math.Nextafter(w.Offers[1].NormSq, 0)} {
		offer := w.Offers[1]
		offer.NormSq = norm
		proof, err := ProveTotal(p, offer, leaves)
		if err != nil {
			t.Fatal(err)
		}
		convicts(t, p, proof, offer.Peer)
	}
	if _, err := ProveTotal(p, w.Offers[1], leaves); !errors.Is(err, ErrProvesNothing) {
		t.Errorf("an honest offer: %v", err)
	}
}

// An owner that changes a single block, or one bit of it, is convicted by it, in each kind of run.
func TestProveOutcome(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	eachKind(40_000, 16_384, func(name string, p allreduce.Params) {
		w := newWorld(t, p, noise(rng, 40_000, 5), 0, 3)
		honest := slices.Clone(w.outcome)
		sample := w.Samples(1<<30, nil)[1].Range
		at, _ := w.span(sample)
		begin, end := bytesOf(w.out, at)
		frame := w.out.Frame(w.outcome, at.frame)
		lie := begin + rng.IntN(end-begin)
		frame[lie] ^= 1
		w.sign()
		openings, outcome := w.openings(t, sample), w.opened(t, sample)
		want, err := w.Recompute(sample, openings)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		block, differs := w.Compare(sample, want, w.bytes(sample))
		if !differs {
			t.Fatalf("%s: the lie is not seen", name)
		}
		proof, err := w.ProveOutcome(block, openings, outcome)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		convicts(t, p, proof, w.Owner)
		if n := len(proof.Append(nil)); n > perPeer*(1+len(openings)) {
			t.Errorf("%s: a proof of %d bytes", name, n)
		}
		for _, other := range w.Samples(1<<30, nil) {
			if other.Range != sample {
				_, err := w.ProveOutcome(block, openings, w.opened(t, other.Range))
				if !errors.Is(err, ErrProvesNothing) {
					t.Errorf("%s: another range proves it: %v", name, err)
				}
				break
			}
		}
		w.outcome = honest
		w.sign()
		_, err = w.ProveOutcome(block, openings, w.opened(t, sample))
		if !errors.Is(err, ErrProvesNothing) || !strings.Contains(err.Error(), "right") {
			t.Errorf("%s: an honest owner is convicted: %v", name, err)
		}
	})
}

// What a false accuser may show is refused, and in words.
func TestProofsThatProveNothing(t *testing.T) {
	p := testParams(20_000, 8192)
	p.Codec = codec.Int8
	w := newWorld(t, p, noise(rand.New(rand.NewPCG(1, 1)), 20_000, 4), 0, 3)
	block := slot.Range{Begin: 8192 + 256, End: 8192 + 512}
	honest := func() Proof {
		return Proof{
			Kind: FalseOutcome, Statement: w.Statement, Outcome: w.opened(t, block), Openings: w.openings(t, block),
		}
	}
	for _, c := range []struct {
		words string
		spoil func(p *Proof)
	}{
		{"bytes are right", func(*Proof) {}},
		{"kind 9", func(p *Proof) { p.Kind = 9 }},
		{"kind 0", func(p *Proof) { *p = Proof{} }},
		{"outcome: the bytes shown", func(p *Proof) { p.Outcome.Bytes = flipped(p.Outcome.Bytes) }},
		{"do not lead to the root", func(p *Proof) { p.Outcome.Path[0][0]++ }},
		{"do not lead to the root", func(p *Proof) { p.Outcome.NormSq = 1 }},
		{"do not lead to the root", func(p *Proof) { p.Statement.Root[0]++ }},
		{"path within the frame", func(p *Proof) { p.Outcome.Inner = p.Outcome.Inner[1:] }},
		{"1023 bytes where", func(p *Proof) { p.Outcome.Bytes = p.Outcome.Bytes[:1023] }},
		{"contribution of", func(p *Proof) { p.Openings[2].Bytes = flipped(p.Openings[2].Bytes) }},
		{"do not lead to the root", func(p *Proof) { p.Openings[2].NormSq++ }},
		{"do not lead to the root", func(p *Proof) { p.Openings[2].Path = p.Openings[2].Path[:1] }},
		{"do not lead to the root", func(p *Proof) { p.Openings[1], p.Openings[2] = p.Openings[2], p.Openings[1] }},
		{"do not lead to the root", func(p *Proof) { p.Statement.Offers[3].Root[5]++ }},
		{"do not lead to the root", func(p *Proof) { p.Statement.Offers[3].Peer += "x" }},
		{"3 openings of 4", func(p *Proof) { p.Openings = p.Openings[:3] }},
		{"instead of", func(p *Proof) { p.Openings[0] = w.openings(t, slot.Range{Begin: 0, End: 256})[0] }},
		{"more than one block", func(p *Proof) { p.Outcome = w.opened(t, slot.Range{Begin: 0, End: 512}) }},
		{"not whole blocks", func(p *Proof) { p.Outcome.Range.Begin++ }},
		{"more than one block", func(p *Proof) { p.Outcome.Range.End = 0 }},
		{"not in segment", func(p *Proof) { p.Outcome.Range = slot.Range{Begin: 1 << 60, End: 1<<60 + 256} }},
		{"for slot 8", func(p *Proof) { p.Statement.Offers[1].Slot++ }},
		{"for slot 7", func(p *Proof) { p.Statement.Slot++ }},
		{"slots stale", func(p *Proof) { p.Statement.Offers[1].Base = 1 }},
		{"fragment 1", func(p *Proof) { p.Statement.Fragment = 1 }},
		{"slot 0", func(p *Proof) { p.Statement.Slot = 0 }},
		{"order of their peers", func(p *Proof) { p.Statement.Offers[0].Peer = "peer-09" }},
		{"0 contributors", func(p *Proof) { p.Statement.Offers = nil }},
		{"without an owner", func(p *Proof) { p.Statement.Owner = "" }},
		{"frame grid", func(p *Proof) { p.Statement.Range.Begin = 5 }},
		{"frame grid", func(p *Proof) { p.Statement.Range.End = 1 << 63 }},
		{"norm are right", func(p *Proof) { p.Kind, p.Offer, p.Openings = 2, p.Statement.Offers[0], p.Openings[:1] }},
		{"do not lead to the root", func(p *Proof) {
			p.Kind, p.Offer, p.Openings = 2, p.Statement.Offers[1], p.Openings[:1]
		}},
		{"slot 0", func(p *Proof) { p.Kind, p.Openings = 2, p.Openings[:1] }},
		{"slot 0", func(p *Proof) { p.Kind, p.Leaves = 4, w.own[1].Leaves() }},
		{"add up to that of the offer", func(p *Proof) {
			p.Kind, p.Offer, p.Leaves = 4, p.Statement.Offers[1], w.own[1].Leaves()
		}},
		{"do not lead to the root", func(p *Proof) {
			p.Kind, p.Offer, p.Leaves = 4, p.Statement.Offers[1], w.own[2].Leaves()
		}},
		{"norms of 2 frames of 3", func(p *Proof) {
			p.Kind, p.Offer, p.Leaves = 4, p.Statement.Offers[1], w.own[1].Leaves()[:2]
		}},
	} {
		proof := honest()
		proof.Statement.Offers = slices.Clone(proof.Statement.Offers)
		c.spoil(&proof)
		guilty, err := proof.Verify(p)
		if guilty != nil || !errors.Is(err, ErrProvesNothing) || !strings.Contains(err.Error(), c.words) {
			t.Errorf("%s: %v, %v", c.words, guilty, err)
		}
	}
	p.Schedule = allreduce.Ring
	if _, err := honest().Verify(p); !errors.Is(err, ErrProvesNothing) || !strings.Contains(err.Error(), "ring") {
		t.Errorf("in a ring: %v", err)
	}
}

func flipped(b []byte) []byte {
	b = slices.Clone(b)
	b[len(b)/2] ^= 4
	return b
}

// What strangers ask for is shown only if it can be.
func TestRangesThatCannotBeShown(t *testing.T) {
	p := testParams(20_000, 8192)
	w := newWorld(t, p, noise(rand.New(rand.NewPCG(1, 1)), 20_000, 1), 0, 3)
	for _, r := range []slot.Range{
		{},
		{Begin: 256, End: 256},
		{Begin: 512, End: 256},
		{Begin: 1, End: 256},
		{Begin: 0, End: 255},
		{Begin: 8192 - 256, End: 8192 + 256},
		{Begin: 19968, End: 20_001},
		{Begin: 0, End: 1 << 63},
		{Begin: 1 << 63, End: 1<<63 + 256},
		{Begin: 0, End: 16_384},
	} {
		if _, err := OpenContribution(p, 0, w.own[0], r); !errors.Is(err, ErrOpening) {
			t.Errorf("%v: %v", r, err)
		}
	}
	for _, r := range []slot.Range{{Begin: 19_968, End: 20_000}, {Begin: 16_384, End: 20_000}, {Begin: 0, End: 8192}} {
		if _, err := OpenContribution(p, 0, w.own[0], r); err != nil {
			t.Errorf("%v: %v", r, err)
		}
	}
	if _, err := OpenContribution(p, 1, w.own[0], slot.Range{End: 256}); !errors.Is(err, ErrOpening) {
		t.Errorf("of another fragment: %v", err)
	}
}
