package audit

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/allreduce"
	"github.com/p2pdiloco/p2pdiloco/allreduce/codec"
	"github.com/p2pdiloco/p2pdiloco/allreduce/internal/plan"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/testutil"
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
		for _, o := range append(w.openings(r), w.opened(r)) {
			f.Add(o.Append(nil))
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		r := wire.NewReader(b)
		o := ReadOpening(r, 4096)
		if !read(t, b, r.Done(), func() []byte { return o.Append(nil) }) {
			return
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

// read says whether bytes were read, which must encode to the same.
func read(t *testing.T, b []byte, err error, encode func() []byte) bool {
	if err != nil && !errors.Is(err, wire.ErrMalformed) {
		t.Fatalf("error %v does not wrap wire.ErrMalformed", err)
	}
	if err == nil && !bytes.Equal(encode(), b) {
		t.Fatal("what was read encodes to other bytes")
	}
	return err == nil
}

// FuzzReadProof reads and verifies foreign bytes: a proof that convicts names something that was
// not signed, for all here are honest.
func FuzzReadProof(f *testing.F) {
	worlds := []*world{fuzzWorld(f, codec.F32), fuzzWorld(f, codec.Sign)}
	for i, w := range worlds {
		for _, proof := range w.proofs() {
			f.Add(i, proof.Append(nil))
			proof.Statement.Slot++
			proof.Offer.NormSq++
			proof.Outcome.Path = nil
			f.Add(i, proof.Append(nil))
		}
	}
	f.Fuzz(func(t *testing.T, which int, b []byte) {
		p, err := ReadProof(b)
		if read(t, b, err, func() []byte { return p.Append(nil) }) {
			worlds[max(0, which)%len(worlds)].convictsNobody(t, p)
		}
	})
}

// convictsNobody fails where a proof convicts somebody by what was signed here.
func (w *world) convictsNobody(t *testing.T, p Proof) {
	t.Helper()
	guilty, err := p.Verify(w.Params)
	if (err == nil) == (len(guilty) == 0) || err != nil && !errors.Is(err, ErrProvesNothing) {
		t.Fatalf("it convicts %v, %v", guilty, err)
	}
	signed := bytes.Equal(p.Statement.Append(nil), w.Statement.Append(nil))
	switch p.Kind {
	case FalseContribution, FalseTotal:
		signed = slices.Contains(w.Offers, p.Offer)
	}
	if err == nil && signed {
		t.Fatalf("the honest %v are convicted by a proof of kind %d", guilty, p.Kind)
	}
}

// TestNoVariedProofEndsAPeer: anybody may send a proof, and whoever gets it verifies it, so no
// proof may panic, and none convicts an honest peer. Proofs of each kind are changed in one to
// three places, at any depth. What is signed may be changed, too: a liar signs what it likes. The
// segments are of few contributors, with what a run has by default: empty contributions weigh
// nothing, and claims are capped.
func TestNoVariedProofEndsAPeer(t *testing.T) {
	r := testutil.Random(t)
	var worlds []*world
	var proofs [][]Proof
	for n, aggregator := range append(plan.Aggregators(), allreduce.TrimmedMean) {
		for _, name := range []string{codec.F32, codec.Int8, codec.Sign} {
			p := testParams(3000, 1024)
			p.Aggregator, p.Codec, p.Empties, p.WeightRatio = aggregator, name, true, 8
			w := newWorld(t, p, noise(rand.New(rand.NewPCG(1, uint64(n))), 3000, 1+n%3), 0, 2)
			worlds, proofs = append(worlds, w), append(proofs, w.proofs())
		}
	}
	for range testutil.Choose(5_000, 10_000, 2_000_000) {
		at := r.IntN(len(worlds))
		p := proofs[at][r.IntN(len(proofs[at]))]
		p.Statement.Offers = slices.Clone(p.Statement.Offers)
		for range 1 + r.IntN(3) {
			parts := []any{&p, &p.Statement, &p.Outcome, &p.Offer}
			for i := range p.Statement.Offers {
				parts = append(parts, &p.Statement.Offers[i])
			}
			testutil.Vary(parts[r.IntN(len(parts))], r.IntN)
		}
		if len(p.Openings) == 0 && p.Kind == FalseContribution {
			continue // there is no such proof on the wire
		}
		if read, err := ReadProof(p.Append(nil)); err == nil {
			worlds[at].convictsNobody(t, read)
		}
	}
}

// FuzzStatement reads foreign statements: one that fits the run has samples and bounds.
func FuzzStatement(f *testing.F) {
	w := fuzzWorld(f, codec.F32)
	f.Add(w.Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		r := wire.NewReader(b)
		s := ReadStatement(r)
		if !read(t, b, r.Done(), func() []byte { return s.Append(nil) }) {
			return
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
