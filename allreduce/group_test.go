package allreduce

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/p2pdiloco/p2pdiloco/internal/kernel"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var testRun = slot.Hash([]byte("a run"))

// recorder is a Sink that remembers.
type recorder struct {
	mu struct {
		sync.Mutex
		done []slot.Segment
		lost map[slot.PeerID]Reason
	}
	losses   chan slot.PeerID
	progress func() // called with every frame, if set
}

func newRecorder() *recorder {
	r := &recorder{losses: make(chan slot.PeerID, 64)}
	r.mu.lost = make(map[slot.PeerID]Reason)
	return r
}

func (r *recorder) SegmentDone(s slot.Segment) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.done = append(r.mu.done, s)
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
}

func testParams(elements, frame int) Params {
	return Params{
		Elements: uint64(elements), FrameElements: frame, Aggregator: Mean, TrimPermille: 250,
		Discount: []uint32{1000, 500, 250}, Codec: "f32",
	}
}

func peerName(i int) slot.PeerID { return slot.PeerID(fmt.Sprintf("peer-%02d", i)) }

// newGroup makes the contributions, offers and engines; nothing runs yet.
func newGroup(t testing.TB, p Params, n int, rng *rand.Rand, change ...func(*Config)) *group {
	t.Helper()
	if err := p.Validate(); err != nil {
		t.Fatal(err)
	}
	g := &group{t: t, params: p, net: newMemNet(64 << 10)}
	for i := range n {
		v := make([]float32, p.Elements)
		size := float32(1 + 10*rng.IntN(3))
		for j := range v {
			v[j] = size * (rng.Float32() - 0.5)
		}
		g.vectors = append(g.vectors, v)
		g.own = append(g.own, commit(newGrid(p), kernel.Bytes(v)))
		g.addEngine(i, change...)
	}
	g.makePlan(rng)
	t.Cleanup(g.close)
	return g
}

func (g *group) addEngine(i int, change ...func(*Config)) {
	cfg := Config{Self: peerName(i), Run: testRun, Params: g.params, Transport: memTransport{g.net, peerName(i)}, Stall: time.Minute}
	cfg.Logger = slog.New(slog.NewTextHandler(g.t.Output(), nil)).With("self", cfg.Self)
	for _, c := range change {
		c(&cfg)
	}
	e, err := New(cfg)
	if err != nil {
		g.t.Fatal(err)
	}
	g.net.add(e)
	g.engines = append(g.engines, e)
	g.sinks = append(g.sinks, newRecorder())
}

func (g *group) makePlan(rng *rand.Rand) {
	const number = 7
	g.plan = slot.Plan{Ref: slot.Ref{Height: 9, Prev: slot.Hash([]byte("prev"))}, Slot: number}
	for i := range g.engines {
		o := slot.Offer{
			Peer: peerName(i), Slot: number, Seq: 1, Base: number - 1 - rng.Uint64N(uint64(len(g.params.Discount))),
			Weight: 1 + rng.Uint64N(1000), Root: g.own[i].Root(),
		}
		g.plan.Offers = append(g.plan.Offers, o)
	}
	g.plan.Pieces = Pieces(g.params, g.plan.Offers)
}

// revise makes the next revision of the plan without a peer.
func (g *group) revise(without int) {
	var offers []slot.Offer
	for _, o := range g.plan.Offers {
		if o.Peer != peerName(without) {
			offers = append(offers, o)
		}
	}
	g.plan.Revision++
	g.plan.Offers, g.plan.Pieces = offers, Pieces(g.params, offers)
}

func (g *group) start(i int) {
	g.t.Helper()
	r, err := g.engines[i].Start(context.Background(), g.plan, g.own[i], g.sinks[i])
	if err != nil {
		g.t.Fatal(err)
	}
	g.running = append(g.running, r)
}

func (g *group) startAll(skip ...int) {
	g.t.Helper()
	g.running = nil
	for i := range g.engines {
		if len(skip) == 0 || skip[0] != i {
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

// check compares every peer's result with the reference, bit by bit.
func (g *group) check(vectors [][]float32) {
	g.t.Helper()
	want := kernel.Bytes(reference(g.params, g.plan, vectors))
	for i, r := range g.running {
		got, ok := r.Result(slot.Range{End: g.params.Elements})
		if !ok || !bytes.Equal(got, want) {
			g.t.Fatalf("peer %d has another result (complete: %v)", i, ok)
		}
	}
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
