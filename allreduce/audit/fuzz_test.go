package audit

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/allreduce/codec"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/wire"
)

func fuzzWorld(t testing.TB, name string) *world {
	p := testParams(3000, 1024)
	p.Codec = name
	return newWorld(t, p, noise(rand.New(rand.NewPCG(1, 1)), 3000, 3), 0, 3)
}

// FuzzReadOpening reads foreign bytes: what is taken encodes to the same, and shows nothing but
// what was offered.
func FuzzReadOpening(f *testing.F) {
	w := fuzzWorld(f, codec.Int8)
	for _, r := range []slot.Range{{Begin: 0, End: 256}, {Begin: 2048, End: 3000}} {
		for _, o := range append(w.openings(f, r), w.opened(f, r)) {
			f.Add(o.Append(nil))
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		r := wire.NewReader(b)
		o := ReadOpening(r, 4096)
		if err := r.Done(); err != nil {
			if !errors.Is(err, wire.ErrMalformed) {
				t.Fatalf("error %v does not wrap wire.ErrMalformed", err)
			}
			return
		}
		if !bytes.Equal(o.Append(nil), b) {
			t.Fatal("what was read encodes to other bytes")
		}
		for i := range w.Offers {
			var fault *Fault
			values, err := w.CheckContribution(i, o)
			if err != nil && (!errors.As(err, &fault) || fault.Proven || !errors.Is(err, ErrOpening)) {
				t.Fatalf("foreign bytes convict an honest peer: %v", err)
			}
			if err == nil && uint64(len(values)) != o.Range.Len() {
				t.Fatalf("%d values of %v", len(values), o.Range)
			}
		}
		if got, err := w.CheckOutcome(o); err == nil && !bytes.Equal(got, w.bytes(o.Range)) {
			t.Fatal("foreign bytes pass for the outcome")
		}
	})
}

// FuzzReadProof reads and verifies foreign bytes: a proof that convicts names something that was
// not signed, for all here are honest.
func FuzzReadProof(f *testing.F) {
	worlds := []*world{fuzzWorld(f, codec.F32), fuzzWorld(f, codec.Sign)}
	for i, w := range worlds {
		block := slot.Range{Begin: 1024, End: 1024 + uint64(w.unit())}
		proof := Proof{
			Kind: FalseOutcome, Statement: w.Statement, Outcome: w.opened(f, block), Openings: w.openings(f, block),
		}
		f.Add(i, proof.Append(nil))
		proof.Statement.Slot++
		f.Add(i, proof.Append(nil))
		proof.Statement.Slot--
		proof.Openings[1], proof.Outcome.Path = proof.Openings[2], nil
		f.Add(i, proof.Append(nil))
		proof = Proof{Kind: FalseContribution, Offer: w.Offers[0], Openings: w.openings(f, block)[:1]}
		f.Add(i, proof.Append(nil))
		proof = Proof{Kind: FalseTotal, Offer: w.Offers[0], Leaves: w.own[0].Leaves()}
		f.Add(i, proof.Append(nil))
		proof.Offer.NormSq++
		f.Add(i, proof.Append(nil))
	}
	f.Fuzz(func(t *testing.T, which int, b []byte) {
		w := worlds[max(0, which)%len(worlds)]
		p, err := ReadProof(b)
		if err != nil {
			if !errors.Is(err, wire.ErrMalformed) {
				t.Fatalf("error %v does not wrap wire.ErrMalformed", err)
			}
			return
		}
		if !bytes.Equal(p.Append(nil), b) {
			t.Fatal("what was read encodes to other bytes")
		}
		checkVerdict(t, w, p)
	})
}

// FuzzVerify changes an honest proof in one place, deeper than the parser: it must go on to prove
// nothing as long as what was signed stays the same.
func FuzzVerify(f *testing.F) {
	w := fuzzWorld(f, codec.BF16)
	f.Add(uint16(0), uint16(0), uint8(1), uint64(1024))
	f.Add(uint16(2), uint16(700), uint8(128), uint64(2816))
	f.Add(uint16(1), uint16(3), uint8(9), uint64(3<<10))
	f.Fuzz(func(t *testing.T, which, at uint16, change uint8, begin uint64) {
		begin = begin % 3000 / 256 * 256
		block := slot.Range{Begin: begin, End: min(begin+256, begin/1024*1024+1024, 3000)}
		p := Proof{
			Kind: FalseOutcome, Statement: w.Statement, Outcome: w.opened(t, block), Openings: w.openings(t, block),
		}
		o := &p.Outcome
		if i := int(which) % 4; i < len(p.Openings) {
			o = &p.Openings[i]
		}
		r := wire.NewReader(change1(o.Append(nil), int(at), change))
		*o = ReadOpening(r, 4096)
		checkVerdict(t, w, p)
		checkVerdict(t, w, Proof{Kind: FalseContribution, Offer: w.Offers[0], Openings: p.Openings[:1]})
	})
}

func change1(b []byte, at int, change uint8) []byte {
	b[at%len(b)] ^= change
	return b
}

// checkVerdict fails where a proof convicts somebody by what was signed here.
func checkVerdict(t *testing.T, w *world, p Proof) {
	t.Helper()
	guilty, err := p.Verify(w.Params)
	if (err == nil) == (len(guilty) == 0) || err != nil && !errors.Is(err, ErrProvesNothing) {
		t.Fatalf("it convicts %v, %v", guilty, err)
	}
	if err != nil {
		return
	}
	signed := bytes.Equal(p.Statement.Append(nil), w.Statement.Append(nil))
	if p.Kind == FalseContribution {
		signed = slices.Contains(w.Offers, p.Offer)
	}
	if signed {
		t.Fatalf("the honest %v are convicted", guilty)
	}
}

// FuzzStatement reads foreign statements: one that fits the run has samples and bounds.
func FuzzStatement(f *testing.F) {
	w := fuzzWorld(f, codec.F32)
	f.Add(w.Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		r := wire.NewReader(b)
		s := ReadStatement(r)
		if r.Done() != nil {
			return
		}
		if !bytes.Equal(s.Append(nil), b) {
			t.Fatal("what was read encodes to other bytes")
		}
		seg, err := New(w.Params, s)
		if err != nil {
			return
		}
		if len(seg.Samples(3, rand.New(rand.NewPCG(1, 1)))) == 0 || !(seg.Bound(make([]float64, len(s.Offers))) >= 0) {
			t.Fatal("a segment without samples or bound")
		}
	})
}
