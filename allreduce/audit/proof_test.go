package audit

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/allreduce"
	"github.com/p2pdiloco/p2pdiloco/allreduce/codec"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// No sample has more than its bytes of the outcome, or of any contributor, whatever the two codecs
// are: electors count on it when they say how many samples a slot can pay for.
func TestSamplesAreSmallInBothCodecs(t *testing.T) {
	for _, in := range append(codec.Names(), "topk:1024:4") {
		for _, out := range append(codec.Names(), "topk:1:2") {
			if out == codec.Sign {
				continue
			}
			p := testParams(1<<20, 1<<18)
			p.Aggregator, p.Codec, p.Outcome = allreduce.Mean, in, out
			g := gridsOf(p, 0)
			n := g.sampleElements()
			if a, b := g.in.Codec.EncodedSize(n), g.out.Codec.EncodedSize(n); max(a, b) > sampleBytes {
				t.Errorf("%s, outcome %s: samples of %d and %d bytes", in, out, a, b)
			}
		}
	}
}

// Each sample of a segment, recomputed from openings that went over the wire, is what an honest
// owner has; all samples together are the segment. An owner that changes one bit is convicted by
// the block that it is in, in each kind of run, and by nothing else.
func TestSamplesShowALie(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	eachKind(40_000, 16_384, func(name string, p allreduce.Params) {
		w := newWorld(t, p, noise(rng, 40_000, 4), 1, 3)
		samples, at := w.Samples(1<<30, nil), w.Range.Begin
		for _, sample := range samples {
			r := sample.Range
			if r.Begin != at || r.End <= at || len(w.bytes(r)) > sampleBytes {
				t.Fatalf("%s: sample %v of %d bytes begins elsewhere than at %d", name, r, len(w.bytes(r)), at)
			}
			at = r.End
			openings := w.openings(r)
			for i, o := range openings {
				openings[i] = w.wired(o)
			}
			want, err := w.Recompute(r, openings)
			w.must(err)
			got, err := w.CheckOutcome(w.wired(w.opened(r)))
			w.must(err)
			if block, differs := w.Compare(r, want, got); differs || !slices.Equal(got, w.bytes(r)) {
				t.Errorf("%s: %v differs", name, block)
			}
		}
		if at != w.Range.End || w.SampleCount() != len(samples) {
			t.Errorf("%s: samples end at %d", name, at)
		}
		r := samples[1].Range
		openings := w.openings(r)
		want, err := w.Recompute(r, openings)
		w.must(err)
		lie := w.bytes(r)
		at = uint64(rng.IntN(len(lie)))
		lie[at] ^= 1
		w.sign()
		block, differs := w.Compare(r, want, lie)
		if !differs {
			t.Fatalf("%s: the lie is not seen", name)
		}
		proof, err := w.ProveOutcome(block, openings, w.opened(r))
		w.must(err)
		convicts(t, p, proof, w.Owner)
		if n := len(proof.Append(nil)); n > 4<<10*(1+len(openings)) {
			t.Errorf("%s: a proof of %d bytes", name, n)
		}
		if _, err := w.ProveOutcome(block, openings, w.opened(samples[0].Range)); !errors.Is(err, ErrProvesNothing) {
			t.Errorf("%s: another range proves it: %v", name, err)
		}
		lie[at] ^= 1
		w.sign()
		_, err = w.ProveOutcome(block, openings, w.opened(r))
		if !errors.Is(err, ErrProvesNothing) || !strings.Contains(err.Error(), "right") {
			t.Errorf("%s: an honest owner is convicted: %v", name, err)
		}
	})
}

func TestSamplesAreDrawnWithoutRepetition(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	w := newWorld(t, testParams(300_000, 65_536), noise(rng, 300_000, 1), 1, 4)
	counts := map[uint64]int{}
	for range 2000 {
		seen := map[uint64]bool{}
		for _, s := range w.Samples(7, rng) {
			counts[s.Range.Begin]++
			seen[s.Range.Begin] = true
		}
		if len(seen) != 7 {
			t.Fatalf("%d different samples", len(seen))
		}
	}
	if n := w.SampleCount(); n != 48 || len(counts) != n || len(w.Samples(0, rng)) > 0 {
		t.Errorf("%d samples, of which %d were ever drawn", n, len(counts))
	}
	for at, n := range counts {
		if n < 200 || n > 390 { // 292 are expected
			t.Errorf("the sample at %d was drawn %d times", at, n)
		}
	}
	for range 100 {
		at := w.Range.Begin + rng.Uint64N(w.Range.Len())
		frame := w.FrameAt(at).Range
		f, err := w.within(frame)
		if err != nil || !w.whole(f) || at < frame.Begin || at >= frame.End {
			t.Fatalf("a frame of %v: %v", f, err)
		}
	}
}

// defaultSamples is the default of audit_samples with trust byzantine.
const defaultSamples = 24

// What an elector does with an owner that lies in one slot, sample by sample, until it has the
// proof. One that changes 2% of a large segment in each slot, in one place and in whole samples,
// which is the least that can be seen of it, is caught within 10 slots with p = 1 - .98^240 = .992:
// a quorum's honest electors share 24 samples.
func TestAnAuditFromSampleToProof(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 5))
	p := testParams(1<<18, 1<<15)
	p.Aggregator = allreduce.Median
	w := newWorld(t, p, noise(rng, 1<<18, 6), 0, 8)
	for _, s := range w.Samples(1<<30, nil)[10:13] { // 3 of 64
		b := w.bytes(s.Range)
		for i := 3; i < len(b); i += 4 {
			b[i] ^= 0x80 // -1 times it
		}
	}
	w.sign()
	for range 10 {
		for _, s := range w.Samples(defaultSamples, rng) {
			openings := w.openings(s.Range)
			want, err := w.Recompute(s.Range, openings)
			w.must(err)
			if block, differs := w.Compare(s.Range, want, w.bytes(s.Range)); differs {
				proof, err := w.ProveOutcome(block, openings, w.opened(s.Range))
				w.must(err)
				convicts(t, p, proof, w.Owner)
				return
			}
		}
	}
	t.Fatal("not caught in 10 slots")
}

// A whole frame shows whether the norm is true; so does a part that has more than the norm says.
func TestOpeningsShowFalseNorms(t *testing.T) {
	p := testParams(5000, 2048)
	const peer = 2
	w := newWorld(t, p, noise(rand.New(rand.NewPCG(1, 1)), 5000, 4), 0, 3)
	for times, shows := range map[float64][2]bool{ // a frame, a part
		1: {false, false}, 1.001: {true, false}, 0: {true, true}, -1: {true, true},
	} {
		leaves := slices.Clone(w.own[peer].Leaves())
		for f := range leaves {
			leaves[f].NormSq *= times
		}
		w.Offers[peer].Root = slot.ContributionRoot(peerName(peer), leaves, w.in.FrameBytes, uint64(w.in.TotalBytes))
		for i, r := range []slot.Range{{Begin: 2048, End: 4096}, {Begin: 2048, End: 2304}} {
			o := w.openings(r)[peer]
			o.NormSq, o.Path = leaves[1].NormSq, slot.ContributionTree(leaves).Path(1)
			_, err := w.CheckContribution(peer, o)
			var fault *Fault
			if got := errors.As(err, &fault) && fault.Proven; got != shows[i] || err != nil && !got {
				t.Errorf("%v times the norm, %v: %v", times, r, err)
			}
			proof, err := ProveContribution(p, w.Offers[peer], o)
			if (err == nil) != shows[i] {
				t.Errorf("%v times the norm, %v: proof: %v", times, r, err)
			} else if err == nil {
				convicts(t, p, proof, peerName(peer))
			}
		}
	}
}

// What the owner of a reduction has met makes a proof, of a small part where that is enough. A peer
// that states another norm of all than those of its frames add up to is convicted by these.
func TestProveFrame(t *testing.T) {
	nan := []byte{0, 0, 0xc0, 0x7f}
	for _, c := range []struct {
		name, codec string
		spoil       func(frame []byte)
		most        int // bytes of the proof; 0: there is none
	}{
		{"NaN", codec.F32, func(b []byte) { copy(b[4000:], nan) }, 2 << 10},
		{"no encoding", codec.Int8, func(b []byte) { copy(b[520:], nan) }, 3 << 10},
		{"false norm", codec.F32, func([]byte) {}, 9 << 10},
		{"honest", codec.F32, nil, 0},
	} {
		p := testParams(5000, 2048)
		p.Codec = c.codec
		w := newWorld(t, p, noise(rand.New(rand.NewPCG(1, 1)), 5000, 2), 0, 3)
		offer, leaves := w.Offers[1], slices.Clone(w.own[1].Leaves())
		for _, norm := range []float64{0, 1e9, math.Nextafter(offer.NormSq, 0)} {
			other := offer
			other.NormSq = norm
			proof, err := ProveTotal(p, other, leaves)
			w.must(err)
			convicts(t, p, proof, offer.Peer)
		}
		if _, err := ProveTotal(p, offer, leaves); !errors.Is(err, ErrProvesNothing) {
			t.Errorf("an honest offer: %v", err)
		}
		b := slices.Clone(w.in.Frame(w.own[1].Bytes(), 1))
		if c.spoil != nil {
			c.spoil(b)
			leaves[1] = slot.FrameLeaf{NormSq: 1e9, Hash: slot.Hash(b)}
		}
		offer.Root = slot.ContributionRoot(offer.Peer, leaves, w.in.FrameBytes, uint64(w.in.TotalBytes))
		bad := &allreduce.BadFrame{
			Peer: offer.Peer, Frame: 1, Bytes: b, Leaf: leaves[1], Path: slot.ContributionTree(leaves).Path(1),
		}
		proof, err := ProveFrame(p, offer, bad)
		if err == nil {
			convicts(t, p, proof, offer.Peer)
		}
		if n := len(proof.Append(nil)); (err == nil) != (c.most > 0) || err == nil && n > c.most ||
			err != nil && !errors.Is(err, ErrProvesNothing) {
			t.Errorf("%s: a proof of %d bytes: %v", c.name, n, err)
		}
		offer.Peer = peerName(5)
		if _, err := ProveFrame(p, offer, bad); !errors.Is(err, ErrProvesNothing) {
			t.Errorf("it convicts another peer: %v", err)
		}
	}
}

// What a false accuser may show is refused, and in words.
func TestProofsThatProveNothing(t *testing.T) {
	params := testParams(20_000, 8192)
	params.Codec = codec.Int8
	w := newWorld(t, params, noise(rand.New(rand.NewPCG(1, 1)), 20_000, 4), 0, 3)
	flip := func(b *[]byte) { *b = slices.Clone(*b); (*b)[len(*b)/2] ^= 4 }
	const right, leads = "right", "do not lead to the root"
	var p Proof
	for _, c := range []struct {
		kind  int // of proofs
		words string
		spoil func()
	}{
		{0, right, func() {}},
		{0, "kind 9", func() { p.Kind = 9 }},
		{0, "kind 0", func() { p = Proof{} }},
		{0, "outcome: the bytes shown", func() { flip(&p.Outcome.Bytes) }},
		{0, leads, func() { p.Outcome.Path[0][0]++ }},
		{0, leads, func() { p.Outcome.NormSq = 1 }},
		{0, leads, func() { p.Statement.Root[0]++ }},
		{0, "path within the frame", func() { p.Outcome.Inner = p.Outcome.Inner[1:] }},
		{0, "1023 bytes where", func() { p.Outcome.Bytes = p.Outcome.Bytes[:1023] }},
		{0, "contribution of", func() { flip(&p.Openings[2].Bytes) }},
		{0, leads, func() { p.Openings[2].NormSq++ }},
		{0, leads, func() { p.Openings[2].Path = p.Openings[2].Path[:1] }},
		{0, leads, func() { slices.Reverse(p.Openings) }},
		{0, leads, func() { p.Statement.Offers[3].Root[5]++ }},
		{0, leads, func() { p.Statement.Offers[3].Peer += "x" }},
		{0, "3 openings of 4", func() { p.Openings = p.Openings[:3] }},
		{0, "instead of", func() { p.Openings[0] = w.openings(slot.Range{End: 256})[0] }},
		{0, "more than one block", func() { p.Outcome = w.opened(slot.Range{End: 512}) }},
		{0, "not whole blocks", func() { p.Outcome.Range.Begin++ }},
		{0, "not in segment", func() { p.Outcome.Range = slot.Range{Begin: 1 << 60, End: 1<<60 + 256} }},
		{0, "for slot 8", func() { p.Statement.Offers[1].Slot++ }},
		{0, "for slot 7", func() { p.Statement.Slot++ }},
		{0, "slots stale", func() { p.Statement.Offers[1].Base = 1 }},
		{0, "fragment 1", func() { p.Statement.Fragment = 1 }},
		{0, "slot 0", func() { p.Statement.Slot = 0 }},
		{0, "order of their peers", func() { p.Statement.Offers[0].Peer = "peer-09" }},
		{0, "0 contributors", func() { p.Statement.Offers = nil }},
		{0, "weigh", func() { // an aggregation of no values would panic in who verifies it
			for i := range p.Statement.Offers {
				p.Statement.Offers[i].Weight = 0
			}
		}},
		{0, "without an owner", func() { p.Statement.Owner = "" }},
		{0, "frame grid", func() { p.Statement.Range.Begin = 5 }},
		{0, "frame grid", func() { p.Statement.Range.End = 1 << 63 }},
		{1, right, func() {}},
		{1, leads, func() { p.Offer = w.Offers[1] }},
		{1, "slot 0", func() { p.Offer = slot.Offer{} }},
		{2, "add up to that of the offer", func() {}},
		{2, leads, func() { p.Leaves = w.own[2].Leaves() }},
		{2, "norms of 2 frames of 3", func() { p.Leaves = p.Leaves[:2] }},
	} {
		p = w.proofs()[c.kind]
		p.Statement.Offers = slices.Clone(p.Statement.Offers)
		c.spoil()
		guilty, err := p.Verify(params)
		if guilty != nil || !errors.Is(err, ErrProvesNothing) || !strings.Contains(err.Error(), c.words) {
			t.Errorf("kind %d, %s: %v, %v", c.kind, c.words, guilty, err)
		}
	}
	params.Schedule = allreduce.Ring
	_, err := w.proofs()[0].Verify(params)
	if !errors.Is(err, ErrProvesNothing) || !strings.Contains(err.Error(), "ring") {
		t.Errorf("in a ring: %v", err)
	}
}

// What strangers ask for is shown only if it can be.
func TestRangesThatCannotBeShown(t *testing.T) {
	p := testParams(20_000, 8192)
	w := newWorld(t, p, noise(rand.New(rand.NewPCG(1, 1)), 20_000, 1), 0, 3)
	for _, r := range [][2]uint64{
		{},
		{256, 256},
		{512, 256},
		{1, 256},
		{0, 255},
		{8192 - 256, 8192 + 256},
		{19_968, 20_001},
		{0, 1 << 63},
		{1 << 63, 1<<63 + 256},
		{0, 16_384},
	} {
		if _, err := OpenContribution(p, 0, w.own[0], slot.Range{Begin: r[0], End: r[1]}); !errors.Is(err, ErrOpening) {
			t.Errorf("%v: %v", r, err)
		}
	}
	for _, r := range [][2]uint64{{19_968, 20_000}, {16_384, 20_000}, {0, 8192}} {
		w.openings(slot.Range{Begin: r[0], End: r[1]})
	}
	if _, err := OpenContribution(p, 1, w.own[0], slot.Range{End: 256}); !errors.Is(err, ErrOpening) {
		t.Errorf("of another fragment: %v", err)
	}
}

// The bytes of proofs are those of docs/spec/reduction.md: another program, written from it alone,
// has the same hashes.
func TestGoldenProofs(t *testing.T) {
	p := testParams(600, 512)
	p.Aggregator, p.Clip = allreduce.Mean, false
	w := newWorld(t, p, vectors(600, 2, func(i, j int) float64 { return float64((i + 1) * j % 7) }), 0, 2)
	proofs := w.proofs()
	for i, want := range []string{
		"b8d30d6443ad7910ca46903e19e0632babcafe09d2eabeffa814531c1795150c",
		"3df87b5caac3b7bcd21e6f6365d481f823c89985f959153280c60cc82e464ceb",
		"ebb4dbe12a7e74e47e41061e124eb64a2c7d3f59b3cb63966e93e774925615f7",
	} {
		if got := fmt.Sprint(proofs[i].Hash()); got != want {
			t.Errorf("a proof of kind %d: %s, want %s", proofs[i].Kind, got, want)
		}
	}
	// kind | owner | slot, fragment, usual weight, range, root | 2 offers
	// | 3 openings of 88 floats: no inner path, a path of 1
	want := 1 + 4 + 7 + 8 + 4 + 8 + 16 + 32 + 4 + 2*(84+7) + 3*(16+8+4+4*88+4+4+32)
	if b := proofs[0].Append(nil); len(b) != want {
		t.Errorf("a proof of %d bytes, want %d", len(b), want)
	}
}
