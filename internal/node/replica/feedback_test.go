package replica

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

// debtor has the contributions of a run with some codec.
func debtor(name string, fragments, staleness int) *contributions {
	elements := slot.FragmentElements(uint64(3*feedbackFrame*fragments+100), uint64(fragments))
	c, err := newContributions("self", Run{
		MaxStaleness: uint64(staleness),
		Params: allreduce.Params{
			Codec: name, Fragments: elements, FrameElements: feedbackFrame, Aggregator: allreduce.Mean,
		},
	})
	if err != nil {
		panic(err)
	}
	return c
}

// offer encodes a pseudo-gradient and keeps it, and returns what others decode.
func (c *contributions) offer(base uint64, fragment int, d []float32) (slot.Root, []float32, error) {
	own, err := c.encode(base, fragment, allreduce.Vector(d))
	if err != nil {
		return slot.Root{}, nil, err
	}
	c.hold(own)
	dec := make([]float32, len(d))
	return own.Encoded.Root(), dec, c.codec.Decode(dec, own.Encoded.Bytes())
}

// listing is a record that lists some contributions of "self" and others, with segments on the
// frame grid, in some of which self is.
func listing(slotNumber uint64, fragment int, root slot.Root, elements uint64,
	inside func(frame int) bool,
) slot.Record {
	r := slot.Record{
		Kind: slot.Step, Slot: slotNumber, Fragment: uint32(fragment),
		Contributions: []slot.Offer{{Peer: "a", Root: slot.Root{1}}, {Peer: "self", Root: root}},
	}
	for f := range int(elements+feedbackFrame-1) / feedbackFrame {
		set := slot.NewBitmap(2)
		set.Set(0)
		if inside(f) {
			set.Set(1)
		}
		begin := uint64(f * feedbackFrame)
		r.Segments = append(r.Segments, slot.Segment{Range: slot.Range{
			Begin: begin,
			End:   min(elements, begin+feedbackFrame),
		}, Contributors: set})
	}
	return r
}

// With every codec, and whichever segments list this peer, the sum of what was decoded from it and
// of what is owed is the sum of the pseudo-gradients that it was listed with. Where it was not
// listed, no bit changes. Some offers are never listed, some are listed late, after others were
// encoded.
func TestFeedbackOwesWhatWasNotDecoded(t *testing.T) {
	for _, name := range []string{codec.BF16, codec.Int8, codec.Int4, codec.Sign} {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) { checkFeedback(t, name) })
		})
	}
}

func checkFeedback(t *rapid.T, name string) {
	fragments := rapid.IntRange(1, 3).Draw(t, "fragments")
	c := debtor(name, fragments, 2)
	rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
	type standing struct {
		root   slot.Root
		d, dec []float32
	}
	balance := make([][]float64, fragments) // sum of D less what was decoded
	for p, n := range c.feedback.sizes {
		balance[p] = make([]float64, n)
	}
	var late []standing // at most one, of the fragment before last
	slots := rapid.IntRange(1, 12).Draw(t, "slots")
	for s := range slots {
		fragment := s % fragments
		d := make([]float32, c.feedback.sizes[fragment])
		for j := range d {
			d[j] = float32(rng.NormFloat64())
		}
		given := slices.Clone(d)
		root, dec, err := c.offer(uint64(s), fragment, d)
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
			before := slices.Clone(c.feedback.mu.debt[fragment])
			record := listing(uint64(s)+1, fragment, o.root, c.feedback.sizes[fragment],
				func(f int) bool { return frames>>f&1 == 1 })
			c.settle(record)
			for j := range d {
				if frames>>(j/feedbackFrame)&1 == 1 {
					balance[fragment][j] += float64(o.d[j]) - float64(o.dec[j])
				} else if before != nil && c.feedback.mu.debt[fragment][j] != before[j] {
					t.Fatalf("element %d: a segment that lists another peer changed what is owed", j)
				}
			}
		}
		late = nil
	}
	for p, e := range c.feedback.mu.debt {
		for j, v := range e {
			if math.Abs(float64(v)-balance[p][j]) > 1e-5 {
				t.Fatalf("fragment %d, element %d: %v is owed, %v is right", p, j, v, balance[p][j])
			}
		}
	}
}

// With nothing else between, e is x - dec(c): signs alone come to the right mean over time.
func TestFeedbackBringsSignsToTheMean(t *testing.T) {
	c := debtor(codec.Sign, 1, 0)
	n := c.feedback.sizes[0]
	d, sum := make([]float32, n), make([]float64, n)
	for j := range d {
		d[j] = float32(j%100) / 100 // most are far from the mean magnitude
	}
	const slots = 400
	for s := range uint64(slots) {
		root, dec, err := c.offer(s, 0, d)
		if err != nil {
			t.Fatal(err)
		}
		for j, v := range dec {
			sum[j] += float64(v)
		}
		c.settle(listing(s+1, 0, root, n, func(int) bool { return true }))
	}
	for j, v := range sum {
		if mean := v / slots; math.Abs(mean-float64(d[j])) > 0.05 {
			t.Fatalf("element %d: the mean of what was decoded is %v, of what was sent %v", j, mean, d[j])
		}
	}
}

// The debt of topk fades: it is that of the equations as published, e = .95 e + D; c = Q(e);
// e -= c, in float64, in the segments that list this peer.
func TestFeedbackFadesWithTopK(t *testing.T) {
	topk, err := codec.New(codec.FormatTopK(8, 2))
	if err != nil {
		t.Fatal(err)
	}
	const n = 2*4096 + 100
	f := newFeedback([]uint64{n}, topk)
	rng := rand.New(rand.NewPCG(4, 2))
	naive, x, d := make([]float64, n), make([]float32, n), make([]float32, n)
	same := func(what string, got []float32, want float64, j int) {
		if math.Abs(float64(got[j])-want) > 1e-4 {
			t.Fatalf("element %d: %s is %v, want %v", j, what, got[j], want)
		}
	}
	listed := func(frame int) bool { return frame%4 != 3 }
	for s := range uint64(30) {
		for j := range d {
			d[j] = float32(rng.NormFloat64())
		}
		o := owing{allreduce.Vector(d), f, 0, f.borrow(0)}
		if err := o.Fill(0, x); err != nil {
			t.Fatal(err)
		}
		for j := range x {
			same("what is encoded", x, .95*naive[j]+float64(d[j]), j)
		}
		if err := topk.Decode(x, topk.Append(nil, x)); err != nil {
			t.Fatal(err)
		}
		o.Decoded(0, x)
		f.owe(listing(s+1, 0, slot.Root{}, n, listed), 1, o.residual)
		f.giveBack(o.residual)
		for j := range x {
			if listed(j / feedbackFrame) {
				naive[j] = .95*naive[j] + float64(d[j]) - float64(x[j])
			}
			same("the debt", f.mu.debt[0], naive[j], j)
		}
	}
}

// A run whose codec loses nothing keeps nothing. Where one does, without an offer nothing is owed:
// a pseudo-gradient that is too large is an error, and the next one is encoded as if it had not
// been. After a state was fetched nothing is owed.
func TestFeedbackIsOfLossyCodecsAlone(t *testing.T) {
	c := debtor(codec.F32, 1, 0)
	own, err := c.encode(0, 0, make(allreduce.Vector, c.params.Fragments[0]))
	if err != nil || c.feedback != nil || own.residual != nil || own.Encoded == nil {
		t.Errorf("f32: feedback %v, residual of %d, %v", c.feedback, len(own.residual), err)
	}
	c.feedback.forgive()
	for _, name := range []string{codec.BF16, codec.Int8, codec.Int4, codec.Sign} {
		c := debtor(name, 1, 0)
		d := make([]float32, c.feedback.sizes[0])
		d[7], d[8] = 3, 0.2
		for _, bad := range []float32{0x1p100, float32(math.NaN()), float32(math.Inf(1))} {
			d[9] = bad
			if _, _, err := c.offer(0, 0, d); !errors.Is(err, allreduce.ErrNotFinite) {
				t.Errorf("%s, %v: %v", name, bad, err)
			}
		}
		d[9] = 1
		root, _, err := c.offer(0, 0, d)
		if err != nil || c.feedback.mu.debt[0] != nil {
			t.Errorf("%s: %v, or something is owed before anything was agreed", name, err)
		}
		c.settle(listing(1, 0, root, uint64(len(d)), func(int) bool { return true }))
		if e := c.feedback.mu.debt[0]; e == nil || e[8] == 0 {
			t.Errorf("%s: nothing is owed", name)
		}
		if c.feedback.forgive(); c.feedback.mu.debt[0] != nil {
			t.Errorf("%s: it is not forgiven", name)
		}
	}
}
