package p2pdiloco

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/p2pdiloco/p2pdiloco/allreduce"
	"github.com/p2pdiloco/p2pdiloco/allreduce/codec"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

const feedbackFrame = 1024

// debtor is a worker of a run with a lossy codec, as far as error feedback goes.
func debtor(name string, fragments, staleness int) *worker {
	spec := Spec{
		Name: "debt", Codec: name, Fragments: uint64(fragments), Frame: feedbackFrame, Layout: Layout{{Name: "x", Shape: []uint64{3*feedbackFrame*uint64(fragments) + 100}}},
		Discount: slices.Repeat([]uint64{1000}, staleness+1),
	}.Settled()
	c, err := codec.New(name)
	if err != nil {
		panic(err)
	}
	w := &worker{self: "self", spec: spec, params: spec.params(), codec: c, feedback: newFeedback(spec, c.Lossy())}
	w.mu.own = make(map[Root]contribution)
	return w
}

// offer encodes a pseudo-gradient and keeps it, and returns what others decode.
func (w *worker) offerOf(base uint64, fragment int, d []float32) (Root, []float32, error) {
	c, residual, err := w.feedback.encode(w.params, fragment, d)
	if err != nil {
		return Root{}, nil, err
	}
	w.keep(contribution{base, 1, fragment, c, residual})
	dec := make([]float32, len(d))
	return c.Root(), dec, w.codec.Decode(dec, c.Bytes())
}

// listing is a record that lists some contributions of "self" and others, with segments on the frame grid, in some of which self is.
func listing(slotNumber uint64, fragment int, root Root, elements uint64, inside func(frame int) bool) slot.Record {
	r := slot.Record{
		Kind: slot.Step, Slot: slotNumber, Fragment: uint32(fragment),
		Contributions: []slot.Offer{{Peer: "a", Root: Root{1}}, {Peer: "self", Root: root}},
	}
	for f := range int(elements+feedbackFrame-1) / feedbackFrame {
		set := slot.NewBitmap(2)
		set.Set(0)
		if inside(f) {
			set.Set(1)
		}
		begin := uint64(f * feedbackFrame)
		r.Segments = append(r.Segments, slot.Segment{Range: slot.Range{Begin: begin, End: min(elements, begin+feedbackFrame)}, Contributors: set})
	}
	return r
}

// Whatever the codec, and whichever segments list this peer: the sum of what was decoded from it, and what is owed, is the sum of the
// pseudo-gradients that it was listed with; and where it was not listed nothing changes by a bit. Some offers are never listed, some
// are listed late, after others were encoded.
func TestFeedbackOwesWhatWasNotDecoded(t *testing.T) {
	for _, name := range []string{codec.BF16, codec.Int8, codec.Int4, codec.Sign} {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) { checkFeedback(t, name) })
		})
	}
}

func checkFeedback(t *rapid.T, name string) {
	fragments := rapid.IntRange(1, 3).Draw(t, "fragments")
	w := debtor(name, fragments, 2)
	rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
	type standing struct {
		root   Root
		d, dec []float32
	}
	balance := make([][]float64, fragments) // sum of D less what was decoded
	for p, n := range w.feedback.sizes {
		balance[p] = make([]float64, n)
	}
	var late []standing // at most one, of the fragment before last
	slots := rapid.IntRange(1, 12).Draw(t, "slots")
	for s := range slots {
		fragment := s % fragments
		d := make([]float32, w.feedback.sizes[fragment])
		for j := range d {
			d[j] = float32(rng.NormFloat64())
		}
		given := slices.Clone(d)
		root, dec, err := w.offerOf(uint64(s), fragment, d)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(given, d) {
			t.Fatal("the pseudo-gradient was changed")
		}
		offer := standing{root, d, dec}
		switch {
		case rapid.IntRange(0, 5).Draw(t, "never listed") == 0:
			continue
		case fragments == 1 && len(late) == 0 && rapid.Bool().Draw(t, "late"):
			late = append(late, offer)
			continue
		}
		for _, o := range append(late, offer) {
			frames := rapid.Uint8().Draw(t, "inside")
			before := slices.Clone(w.feedback.mu.debt[fragment])
			record := listing(uint64(s)+1, fragment, o.root, w.feedback.sizes[fragment], func(f int) bool { return frames>>f&1 == 1 })
			w.spend(record)
			for j := range d {
				if frames>>(j/feedbackFrame)&1 == 1 {
					balance[fragment][j] += float64(o.d[j]) - float64(o.dec[j])
				} else if before != nil && w.feedback.mu.debt[fragment][j] != before[j] {
					t.Fatalf("element %d: a segment that lists another peer changed what is owed", j)
				}
			}
		}
		late = nil
	}
	for p, e := range w.feedback.mu.debt {
		for j, v := range e {
			if math.Abs(float64(v)-balance[p][j]) > 1e-5 {
				t.Fatalf("fragment %d, element %d: %v is owed, %v is right", p, j, v, balance[p][j])
			}
		}
	}
}

// With nothing else between, e is x - dec(c): signs alone come to the right mean over time.
func TestFeedbackBringsSignsToTheMean(t *testing.T) {
	w := debtor(codec.Sign, 1, 0)
	n := w.feedback.sizes[0]
	d, sum := make([]float32, n), make([]float64, n)
	for j := range d {
		d[j] = float32(j%100) / 100 // most are far from the mean magnitude
	}
	const slots = 400
	for s := range uint64(slots) {
		root, dec, err := w.offerOf(s, 0, d)
		if err != nil {
			t.Fatal(err)
		}
		for j, v := range dec {
			sum[j] += float64(v)
		}
		w.spend(listing(s+1, 0, root, n, func(int) bool { return true }))
	}
	for j, v := range sum {
		if mean := v / slots; math.Abs(mean-float64(d[j])) > 0.05 {
			t.Fatalf("element %d: the mean of what was decoded is %v, of what was sent %v", j, mean, d[j])
		}
	}
}

// What a run without losses keeps: nothing; and a state that was fetched leaves nothing owed.
func TestFeedbackIsOfLossyCodecsAlone(t *testing.T) {
	w := debtor(codec.F32, 1, 0)
	d := make([]float32, w.spec.fragmentElements()[0])
	d[7] = 3
	c, residual, err := w.feedback.encode(w.params, 0, d)
	if err != nil || w.feedback != nil || residual != nil || c == nil {
		t.Errorf("f32: feedback %v, residual of %d, %v", w.feedback, len(residual), err)
	}
	w.feedback.forgive()

	w = debtor(codec.Int4, 1, 0)
	d[8] = 0.2
	root, _, err := w.offerOf(0, 0, d)
	if err != nil {
		t.Fatal(err)
	}
	if w.feedback.mu.debt[0] != nil {
		t.Error("something is owed before anything was agreed")
	}
	w.spend(listing(1, 0, root, uint64(len(d)), func(int) bool { return true }))
	if e := w.feedback.mu.debt[0]; e == nil || e[8] == 0 {
		t.Error("nothing is owed")
	}
	if w.feedback.forgive(); w.feedback.mu.debt[0] != nil {
		t.Error("it is not forgiven")
	}
}

// Without an offer nothing is owed: a pseudo-gradient that is too large is told of, and the next one goes as if it had not been.
func TestFeedbackRefusesWhatIsTooLarge(t *testing.T) {
	for _, name := range []string{codec.BF16, codec.Int8, codec.Int4, codec.Sign} {
		w := debtor(name, 1, 0)
		d := make([]float32, w.feedback.sizes[0])
		for _, bad := range []float32{0x1p100, float32(math.NaN()), float32(math.Inf(1))} {
			d[9] = bad
			if _, _, err := w.offerOf(0, 0, d); !errors.Is(err, allreduce.ErrNotFinite) {
				t.Errorf("%s, %v: %v", name, bad, err)
			}
		}
		d[9] = 1
		if _, _, err := w.offerOf(0, 0, d); err != nil {
			t.Error(err)
		}
	}
}
