package allreduce

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/p2pdiloco/p2pdiloco/allreduce/internal/plan"
	_ "github.com/p2pdiloco/p2pdiloco/internal/onecpu"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var testRun = slot.Hash([]byte("a run"))

// recorder is a Sink that remembers.
type recorder struct {
	mu struct {
		sync.Mutex
		done    []slot.Segment
		figures map[slot.Range]slot.Root // of done
		lost    map[slot.PeerID]Reason
	}
	losses   chan slot.PeerID
	progress func() // called with every frame, if set
	within   func(slot.Bitmap) slot.Bitmap
}

func newRecorder() *recorder {
	r := &recorder{losses: make(chan slot.PeerID, 64)}
	r.mu.lost, r.mu.figures = make(map[slot.PeerID]Reason), make(map[slot.Range]slot.Root)
	return r
}

func (r *recorder) Within(set slot.Bitmap) slot.Bitmap {
	if r.within != nil {
		return r.within(set)
	}
	return set
}

func (r *recorder) SegmentDone(s slot.Segment, figures slot.Root, _ Alike) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.done, r.mu.figures[s.Range] = append(r.mu.done, s), figures
}

func (r *recorder) Lost(peer slot.PeerID, reason Reason, _ error) {
	r.mu.Lock()
	r.mu.lost[peer] = reason
	r.mu.Unlock()
	r.losses <- peer
}

func (r *recorder) Progress(_, _ uint64) {
	if r.progress != nil {
		r.progress()
	}
}

func (r *recorder) lost() map[slot.PeerID]Reason {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.mu.lost)
}

// group is n peers with a contribution each and a plan.
type group struct {
	t       testing.TB
	params  Params
	net     *memNet
	vectors [][]float32
	own     []*Contribution
	plan    slot.Plan
	engines []*Engine
	sinks   []*recorder
	running []*Reduction
	started map[*Reduction]int // all there were, and whose
	gone    []int

	measured int // contributions that were compared with the outcome before
}

func testParams(elements, frame int) Params {
	return Params{
		Fragments: []uint64{uint64(elements)}, FrameElements: frame, Aggregator: Mean, TrimPermille: 250,
		Discount: []uint32{1000, 500, 250}, Codec: "f32", Schedule: Ring, // plans may have one
	}
}

func peerName(i int) slot.PeerID { return slot.PeerID(fmt.Sprintf("peer-%02d", i)) }

// commit commits to bytes that nobody has checked.
func commit(g plan.Grid, self slot.PeerID, encoded []byte) *Contribution {
	c, err := commitEach(g, self, encoded, func(f int) ([]float32, error) {
		var in frame
		_ = in.decode(g, f, g.Frame(encoded, f), false)
		return in.values, nil
	})
	if err != nil {
		panic(err)
	}
	return c
}

// newGroup makes the contributions, offers and engines; nothing runs yet.
func newGroup(t testing.TB, p Params, n int, rng *rand.Rand, change ...func(*Config)) *group {
	t.Helper()
	if err := p.Validate(); err != nil {
		t.Fatal(err)
	}
	g := &group{t: t, params: p, net: newMemNet(64 << 10), started: make(map[*Reduction]int)}
	for i := range n {
		v := make([]float32, p.Fragments[0])
		size := float32(1 + 10*rng.IntN(3))
		for j := range v {
			v[j] = size * (rng.Float32() - 0.5)
		}
		g.own = append(g.own, commit(plan.NewGrid(p, 0), peerName(i), encoded(plan.NewGrid(p, 0), v)))
		g.vectors = append(g.vectors, v)
		g.addEngine(i, change...)
	}
	g.makePlan(rng)
	t.Cleanup(g.close)
	return g
}

// encoded is a vector's encoding; the vector becomes what everybody decodes from it.
func encoded(g plan.Grid, v []float32) []byte {
	b := g.Codec.Append(nil, v)
	if err := g.Codec.Decode(v, b); err != nil {
		panic(err)
	}
	return b
}

func (g *group) addEngine(i int, change ...func(*Config)) {
	cfg := Config{
		Self: peerName(i), Run: testRun, Params: g.params, Transport: memTransport{g.net, peerName(i)},
		Stall: time.Minute,
	}
	cfg.Logger = slog.New(slog.NewTextHandler(g.t.Output(), nil)).With("self", cfg.Self)
	for _, c := range change {
		c(&cfg)
	}
	e, err := New(cfg)
	if err != nil {
		g.t.Fatal(err)
	}
	e.hearsay = min(e.hearsay, 100*time.Millisecond)
	g.net.add(e)
	g.engines = append(g.engines, e)
	g.sinks = append(g.sinks, newRecorder())
}

// apart has every header and frame written by itself, for streams that look at single Writes.
func (g *group) apart() {
	for _, e := range g.engines {
		e.together = 0
	}
}

func (g *group) makePlan(rng *rand.Rand) {
	const number = 7
	g.plan = slot.Plan{Ref: slot.Ref{Height: 9, Prev: slot.Hash([]byte("prev"))}, Slot: number}
	for i := range g.engines {
		o := slot.Offer{
			Peer: peerName(i), Slot: number, Seq: 1, Base: number - 1 - rng.Uint64N(uint64(len(g.params.Discount))),
			Weight: 1 + rng.Uint64N(1000), Root: g.own[i].Root(), NormSq: g.own[i].NormSq(),
		}
		g.plan.Offers = append(g.plan.Offers, o)
	}
	g.plan.Pieces = Pieces(g.params, 0, g.plan.Offers)
}

// revise makes the next revision of the plan, in which some peers are gone.
func (g *group) revise(gone ...int) {
	g.plan.Revision++
	g.plan.Gone = slices.Concat(slot.NewBitmap(len(g.plan.Offers)))
	for _, i := range append(g.gone, gone...) {
		g.plan.Gone.Set(i)
	}
	g.gone = append(g.gone, gone...)
	g.plan.Pieces = Divide(g.params, g.plan)
}

func (g *group) start(i int) *Reduction {
	g.t.Helper()
	r, err := g.engines[i].Start(context.Background(), g.plan, g.own[i], g.sinks[i])
	if errors.Is(err, net.ErrClosed) && !g.net.alive(peerName(i)) {
		return nil
	}
	if err != nil {
		g.t.Fatal(err)
	}
	if !slices.Contains(g.running, r) {
		g.running = append(g.running, r)
	}
	g.started[r] = i
	return r
}

func (g *group) startAll(skip ...int) {
	g.t.Helper()
	g.running = nil
	for i := range g.engines {
		if !slices.Contains(skip, i) {
			g.start(i)
		}
	}
}

// wait returns once all running reductions are complete.
func (g *group) wait() {
	g.t.Helper()
	for i, r := range g.running {
		select {
		case <-r.Complete():
		case <-time.After(2 * time.Minute): // ends a broken test, never a good one
			g.t.Fatalf("reduction %d does not complete; lost: %v", i, g.sinks[i].lost())
		}
	}
}

// check compares every peer's result with the reference, bit by bit: each range with the
// contributors that its owner names.
func (g *group) check() {
	g.t.Helper()
	var want []byte
	for _, s := range g.outcome() {
		sub, vectors := g.params, [][]float32(nil)
		sub.Fragments = []uint64{s.Range.Len()}
		plan := g.plan
		plan.Fragment = 0 // of sub
		plan.Offers = nil
		for i, v := range g.vectors {
			if s.Contributors.Has(i) {
				plan.Offers = append(plan.Offers, g.plan.Offers[i])
				vectors = append(vectors, v[s.Range.Begin:s.Range.End])
			}
		}
		out := g.engines[0].outs[g.plan.Fragment]
		b := out.Codec.Append(nil, reference(sub, plan, vectors, g.order(s)))
		if size := out.FrameBytes; slot.FrameRoot(slot.FrameHashes(b, size), size, uint64(len(b))) != s.Root {
			g.t.Fatalf("range %v has another root than the reference", s.Range)
		}
		want = append(want, b...)
	}
	for i, r := range g.running {
		got, ok := r.Result(slot.Range{End: g.params.Fragments[g.plan.Fragment]})
		if !ok || !bytes.Equal(got, want) {
			g.t.Fatalf("peer %d has another result (complete: %v)", i, ok)
		}
	}
}

// order is in which order the contributors to a segment are added up, as indices among them.
func (g *group) order(s slot.Segment) (order []int) {
	in := make(map[int]int)
	for i := range g.plan.Offers {
		if s.Contributors.Has(i) {
			in[i] = len(in)
		}
	}
	owner := g.plan.Pieces[g.plan.PieceAt(s.Range.Begin)].Owner
	for _, place := range g.plan.Order(g.plan.Place(owner), s.Contributors) {
		order = append(order, in[place])
	}
	return order
}

// outcome is what the owners of the newest plan have stated, which must cover the vector.
func (g *group) outcome() (all []slot.Segment) {
	g.t.Helper()
	for _, piece := range g.plan.Pieces {
		var of []slot.Segment
		s := g.sinks[g.plan.Place(piece.Owner)]
		s.mu.Lock()
		for _, d := range s.mu.done {
			again := slices.ContainsFunc(of, func(o slot.Segment) bool { return o.Range == d.Range })
			if !again && piece.Range.Begin <= d.Range.Begin && d.Range.End <= piece.Range.End {
				of = append(of, d)
			}
		}
		s.mu.Unlock()
		slices.SortFunc(of, func(a, b slot.Segment) int { return cmp.Compare(a.Range.Begin, b.Range.Begin) })
		all = append(all, of...)
	}
	at := uint64(0)
	for _, s := range all {
		if s.Range.Begin != at {
			g.t.Fatalf("the statements do not join at %d: %v", at, all)
		}
		at = s.Range.End
	}
	if at != g.params.Fragments[g.plan.Fragment] {
		g.t.Fatalf("the statements end at %d", at)
	}
	return all
}

func (g *group) close() {
	for _, e := range g.engines {
		if err := e.Close(); err != nil {
			g.t.Error(err)
		}
	}
	g.net.wg.Wait()
}

// onlyLost fails unless exactly that peer was named, with that reason.
func onlyLost(t testing.TB, who string, s *recorder, peer slot.PeerID, reason Reason) {
	t.Helper()
	if l := s.lost(); len(l) != 1 || l[peer] != reason {
		t.Errorf("%s names %v, want only %s for %s", who, l, peer, reason)
	}
}

// copyOf is a contribution that tests may change.
func copyOf(c *Contribution) *Contribution {
	return &Contribution{
		data: slices.Clone(c.data), peer: c.peer, leaves: slices.Clone(c.leaves), root: c.root, frame: c.frame,
	}
}
