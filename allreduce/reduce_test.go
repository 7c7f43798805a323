package allreduce

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/p2pdiloco/p2pdiloco/allreduce/codec"
	"github.com/p2pdiloco/p2pdiloco/allreduce/internal/plan"
	"github.com/p2pdiloco/p2pdiloco/internal/kernel"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/wire"
)

// Every peer ends with the bits of the naive reference, for both schedules, all aggregators, codecs
// and group sizes, with ragged tails and fragments in turn, however frames travel. A huge claim of
// tokens counts as what it is capped at. What owners state and publish is true, and the peers send
// what their codecs say.
func TestMatchesReference(t *testing.T) {
	seed := uint64(0)
	for n := 1; n <= 9; n++ {
		for _, a := range plan.Aggregators() {
			for kind := range 4 {
				seed++
				rng := rand.New(rand.NewPCG(seed, 0))
				p := drawParams(rng, n, codec.Names()[seed%6])
				if p.Aggregator, p.Clip = a, kind&1 > 0; p.Codec == codec.TopK {
					p.Aggregator, p.Outcome = Mean, codec.FormatTopK(256, 4)
				}
				t.Run(fmt.Sprintf("%d peers, ring %v, %s, %+v", n, kind > 1, p.Codec, p.Fragments),
					func(t *testing.T) {
						synctest.Test(t, func(t *testing.T) { reduceFragments(t, p, n, kind > 1, rng) })
					})
			}
		}
	}
	for _, frame := range []int{50_000, 500} { // larger than what is buffered; more than a window
		large := testParams(150_003, frame)
		large.Aggregator, large.Clip = TrimmedMean, true
		bubble(t, large, 3, time.Minute, func(g *group) {
			g.start(g.rest()...)
			g.check()
			g.checkFigures()
		})
	}
}

// drawParams draws the fragments and the frame; one group in eight has frames of many parts.
func drawParams(rng *rand.Rand, n int, codecName string) Params {
	c, _ := codec.New(codecName)
	elements := 1 + rng.IntN(1<<(8+rng.IntN(7)))
	blocks := elements / c.Block
	blocks = max(1+rng.IntN(1+blocks/(1+rng.IntN(4*n))), blocks/200)
	if rng.IntN(8) == 0 {
		elements, blocks = 20_000+elements, 2*partElements/c.Block
	}
	p := testParams(elements, blocks*c.Block)
	p.Fragments = slot.FragmentElements(uint64(elements), 1+rng.Uint64N(uint64(min(3, elements))))
	p.Codec, p.TrimPermille, p.WeightRatio = codecName, rng.IntN(450), rng.Uint64N(9)
	return p
}

// reduceFragments reduces each fragment, and the first one once more, on the same engines.
func reduceFragments(t *testing.T, p Params, n int, ring bool, rng *rand.Rand) {
	g := newGroup(t, p, n, time.Minute, rng)
	method := packMethod(rng.IntN(3)) // 0: each sender decides for itself
	var stale atomic.Int32
	for _, e := range g.engines {
		e.raw.always, e.reduced.always = method, method
	}
	if p.WeightRatio > 0 {
		g.plan.Offers[rng.IntN(n)].Weight = 1 << 50
		g.plan.Usual = 100 * rng.Uint64N(2) // 0: none is known
	}
	g.wrap = func(_, _ int, s wire.Stream) wire.Stream { return &lastWords{Stream: s, stale: &stale} }
	for range len(p.Fragments) + 1 {
		if ring {
			g.goRound()
		}
		g.start(g.rest()...)
		g.check()
		for _, r := range g.running {
			r.wg.Wait() // streams end by themselves: an engine that closes resets them
		}
		g.checkStatements()
		if !ring {
			g.checkLeaves()
			g.checkFigures()
			if method == 0 {
				g.checkTraffic()
			}
		}
		for _, r := range g.running {
			r.Release()
		}
		g.plan.Height++
		g.plan.Slot++
		g.contribute()
	}
	if stale.Load() > 0 {
		t.Errorf("%d streams ended without a deadline of the end's own", stale.Load())
	}
}

// lastWords is a stream that knows what was done last to its writing side: its end may take as long
// to leave as any write.
type lastWords struct {
	wire.Stream
	renewed atomic.Bool // it was the deadline
	stale   *atomic.Int32
}

func (s *lastWords) Write(b []byte) (int, error) {
	s.renewed.Store(false)
	return s.Stream.Write(b)
}

func (s *lastWords) SetWriteDeadline(t time.Time) error {
	s.renewed.Store(time.Until(t) > time.Minute) // the group's stall limit
	return s.Stream.SetWriteDeadline(t)
}

func (s *lastWords) CloseWrite() error {
	if !s.renewed.Load() {
		s.stale.Add(1)
	}
	return s.Stream.CloseWrite()
}

// checkStatements fails unless the sinks have heard of every piece once, with all contributors, and
// of no loss.
func (g *group) checkStatements() {
	g.t.Helper()
	g.nobody(g.rest())
	done := 0
	for _, s := range g.sinks {
		done += len(s.mu.done)
		for _, d := range s.mu.done {
			if d.Contributors.Count() != len(g.engines) {
				g.t.Errorf("range %v has contributors %v", d.Range, d.Contributors)
			}
		}
	}
	if done != len(g.plan.Pieces) {
		g.t.Errorf("%d pieces are done of %d", done, len(g.plan.Pieces))
	}
}

// checkLeaves fails unless owners know what each contributor has committed to.
func (g *group) checkLeaves() {
	g.t.Helper()
	for _, p := range g.plan.Pieces {
		r := g.running[g.plan.Place(p.Owner)]
		for i, own := range g.own {
			leaves, ok := r.Leaves(peerName(i))
			if !ok || !slices.EqualFunc(leaves, own.Leaves(), slot.FrameLeaf.Equal) {
				g.t.Errorf("%s has not the leaves of peer %d", p.Owner, i)
			}
		}
		if _, ok := r.Leaves("stranger"); ok {
			g.t.Error("leaves of a stranger")
		}
	}
}

// checkTraffic fails unless all sent every frame to its owner and back once, and little beside.
func (g *group) checkTraffic() {
	g.t.Helper()
	n, in, out := len(g.engines), g.engines[0].grids[g.plan.Fragment], g.engines[0].outs[g.plan.Fragment]
	frame := 2*headerSize + slot.FigureRowSize(n)
	stream := helloSize + in.Frames*slot.FrameLeafSize + 2*headerSize + len(slot.Root{})
	want := (n - 1) * (in.TotalBytes + out.TotalBytes)
	most := want + (n-1)*(in.Frames*frame+len(g.plan.Pieces)*stream)
	var sent uint64
	for _, r := range g.running {
		some, _ := r.Traffic()
		sent += some
	}
	if int(sent) > most || int(sent) < want {
		g.t.Errorf("%d bytes were sent, want %d to %d", sent, want, most)
	}
}

// checkFigures compares what owners publish with a naive computation, and with what every peer has
// that has got the pieces from their owners.
func (g *group) checkFigures() {
	g.t.Helper()
	for _, s := range g.outcome() {
		owner := g.owner(s.Range.Begin)
		var peers []slot.PeerID
		offers, vectors := g.inputs(s)
		for _, o := range offers {
			peers = append(peers, o.Peer)
		}
		published := g.running[owner].Figures(s.Range, peers)
		for i, r := range g.running {
			rows := r.Figures(s.Range, peers)
			same := func(a, b slot.FigureRow) bool { return bytes.Equal(a.Append(nil), b.Append(nil)) }
			if len(rows) == 0 || !slices.EqualFunc(rows, published, same) {
				g.t.Fatalf("peer %d has not the figures of %v that the owner publishes", i, s.Range)
			}
		}
		encoded := g.running[owner].frames(s.Range).Bytes
		values := make([]float32, s.Range.Len())
		if err := g.running[owner].out.Codec.Decode(values, encoded); err != nil {
			g.t.Fatal(err)
		}
		for k, row := range published {
			begin := k * g.params.FrameElements
			g.checkRow(row, offers, vectors, values, begin, min(begin+g.params.FrameElements, len(values)))
		}
	}
}

// checkRow compares a row with what plain loops give for a frame.
func (g *group) checkRow(row slot.FigureRow, offers []slot.Offer, vectors [][]float32, outcome []float32, begin,
	end int,
) {
	g.t.Helper()
	outcome = outcome[begin:end]
	norm := dot(outcome, outcome)
	same := func(what string, got float32, want float64) {
		g.t.Helper()
		if math.Abs(float64(got)-want) > 1e-6*(math.Abs(want)+math.Sqrt(norm)*1e-3)+1e-30 {
			g.t.Fatalf("%s is %v, want %v", what, got, want)
		}
	}
	same("the norm of the outcome", row.Norm, math.Sqrt(norm))
	trimmed := g.trimmedShares(offers, vectors, begin, end)
	for i, v := range vectors {
		f, c := row.Of[i], v[begin:end]
		same("a norm", f.Norm, math.Sqrt(dot(c, c)))
		if norm > 0 {
			same("a product", f.Along, dot(c, outcome)/math.Sqrt(norm))
		}
		// counted at some coordinates: six standard deviations, and where there are very few, any
		most := 6*math.Sqrt(.25/max(1, float64(len(outcome)/trimStride))) + .001
		if got := float64(f.Trimmed) / slot.FigureScale; math.Abs(got-trimmed[i]) > most {
			g.t.Fatalf("%v of contributor %d is said to be trimmed, want %v within %v", got, i, trimmed[i], most)
		}
	}
}

func dot(x, y []float32) (sum float64) {
	for j := range x {
		sum += float64(x[j]) * float64(y[j])
	}
	return sum
}

// trimmedShares are the shares of the coordinates at which a contributor is among the lowest or
// highest that are left out.
func (g *group) trimmedShares(offers []slot.Offer, vectors [][]float32, begin, end int) []float64 {
	k, shares, agreed := referenceTrim(g.params, len(vectors)), make([]float64, len(vectors)), g.plan
	agreed.Offers = offers
	scale, values := referenceScale(g.params, agreed, vectors, begin, end), make([]float32, len(vectors))
	for j := begin; j < end && k > 0; j++ {
		for i, v := range vectors {
			values[i] = float32(scale[i] * v[j])
		}
		sorted := slices.Sorted(slices.Values(values))
		for i, v := range values {
			if v < sorted[k] || v > sorted[len(sorted)-1-k] {
				shares[i] += 1 / float64(end-begin)
			}
		}
	}
	return shares
}

// A contribution of nothing changes nothing: the outcome is that of the others alone, as if they
// were all, with every aggregator. What it owns it reduces like any other.
func TestEmptyContributionsWeighNothing(t *testing.T) {
	const idle = 4
	for i, agg := range slices.Repeat(plan.Aggregators(), 2) {
		p := testParams(3000, 100)
		p.Aggregator, p.Clip, p.Empties, p.Schedule = agg, i > 2, true, Rotation
		bubble(t, p, 5, time.Minute, func(g *group) {
			for i := range g.vectors[idle] {
				g.vectors[idle][i] *= 1e-6
			}
			g.offer(idle, commit(plan.NewGrid(p, 0), idle, kernel.Bytes(g.vectors[idle])))
			g.start(g.rest()...)
			<-g.running[0].Complete()
			got := g.running[0].frames(slot.Range{End: 3000}).Bytes
			others := g.plan
			others.Offers = others.Offers[:idle]
			if !bytes.Equal(got, kernel.Bytes(reference(p, others, g.vectors[:idle], []int{0, 1, 2, 3}))) {
				t.Errorf("%s, clip %v: a contribution of nothing moves the outcome", agg, p.Clip)
			}
		})
	}
}

// Bytes that are held outlive the reduction, and the next one takes another buffer. Once nobody
// holds them, a reduction's buffer is the next one's, and its contribution's may be encoded into.
func TestHeldBytesOutliveTheReduction(t *testing.T) {
	bubble(t, testParams(300, 100), 3, time.Minute, func(g *group) {
		whole := []slot.Range{{End: 300}}
		reduce := func() (*Reduction, []slot.Frames, func()) {
			g.plan.Height++ // another group: no stream of the one before can join it
			g.plan.Opened.Height = g.plan.Height
			g.start(g.rest()...)
			g.check()
			b, done := g.running[0].Hold(whole)
			return g.running[0], b, done
		}
		first, held, done := reduce()
		own, was := first.own, slot.Hash(held[0].Bytes)
		if _, free := own.Reclaim(); free {
			t.Error("a running reduction does not hold what it sends")
		}
		release := func() {
			for _, r := range g.running {
				r.Release()
				r.Release()
			}
		}
		release()
		if _, free := own.Reclaim(); !free {
			t.Error("a reduction that was released holds what it has sent")
		}
		second, other, otherDone := reduce()
		clear(second.result) // as another outcome does
		if &other[0].Bytes[0] == &held[0].Bytes[0] || slot.Hash(held[0].Bytes) != was {
			t.Error("the next reduction has the buffer that is held")
		}
		done()
		otherDone()
		b, free := first.Hold(whole)
		if ok := first.frames(whole[0]).Bytes != nil; ok || b[0].Bytes != nil {
			t.Error("a reduction that was released lends bytes")
		}
		free()
		release()
		_, third, free := reduce()
		if &third[0].Bytes[0] != &other[0].Bytes[0] {
			t.Error("a buffer that nobody holds is not used again")
		}
		free()
	})
}

// Two of three have the outcome long before the third, whose link in is slow, and go their way: it
// gets the rest all the same, and then their buffers are free.
func TestTheSlowGetTheRestOfWhatIsRetired(t *testing.T) {
	bubble(t, testParams(300, 100), 3, 8*time.Second, func(g *group) {
		g.apart()
		g.wrap = func(local, remote int, s wire.Stream) wire.Stream {
			if local != 2 && remote == 2 {
				return bent{s, nil, opened(false, slow(0, 30, 4*time.Second))}
			}
			return s
		}
		g.start(0, 1, 2)
		late := g.running[2]
		for _, r := range g.running[:2] {
			<-r.Complete()
			r.Retire()
		}
		select {
		case <-late.Complete():
			t.Fatal("the slow one was as fast as the others: this shows nothing")
		default:
		}
		time.Sleep(time.Hour)
		<-late.Complete()
		for i, e := range g.engines[:2] {
			e.mu.Lock()
			if e.mu.spare == nil {
				t.Errorf("peer %d keeps its buffer", i)
			}
			e.mu.Unlock()
		}
		g.nobody(g.rest())
	})
}
