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
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/p2pdiloco/p2pdiloco/allreduce/internal/plan"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/testutil"
	"github.com/p2pdiloco/p2pdiloco/internal/wire"
)

func init() { testutil.OneCPU() }

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var testRun = slot.Hash([]byte("a run"))

// recorder is a Sink that remembers.
type recorder struct {
	mu struct {
		sync.Mutex
		done []slot.Segment
		lost map[slot.PeerID]Reason
		errs []error // of the losses
	}
	losses   chan slot.PeerID
	progress func() // called with every frame, if set
	within   func(slot.Bitmap) slot.Bitmap
}

func (r *recorder) Within(set slot.Bitmap) slot.Bitmap {
	if r.within != nil {
		return r.within(set)
	}
	return set
}

func (r *recorder) SegmentDone(s slot.Segment) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.done = append(r.mu.done, s)
}

func (r *recorder) Lost(peer slot.PeerID, reason Reason, err error) {
	r.mu.Lock()
	r.mu.lost[peer], r.mu.errs = reason, append(r.mu.errs, err)
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

// group is n peers with a contribution each and a plan, and the net between them.
type group struct {
	t       testing.TB
	rng     *rand.Rand
	params  Params
	vectors [][]float32
	own     []*Contribution
	plan    slot.Plan
	engines []*Engine
	sinks   []*recorder
	running []*Reduction     // of each peer; nil where none is, or none is waited for
	losses  chan slot.PeerID // of all sinks
	gone    []int

	size   int // bytes that a direction of a stream buffers
	wrap   func(local, remote int, s wire.Stream) wire.Stream
	silent int // streams to this peer are held open, and nobody serves them; -1: there is none
	dead   [16]atomic.Bool
	wg     sync.WaitGroup
}

func testParams(elements, frame int) Params {
	return Params{
		Fragments: []uint64{uint64(elements)}, FrameElements: frame, Aggregator: Mean, TrimPermille: 250,
		Discount: []uint32{1000, 500, 250}, Codec: "f32", Schedule: Ring, // plans may have one
	}
}

func peerName(i int) slot.PeerID { return slot.PeerID(fmt.Sprintf("peer-%02d", i)) }

// bubble runs f with a group in virtual time. Of a peer in it nothing is heard for stall before it
// is lost.
func bubble(t *testing.T, p Params, n int, stall time.Duration, f func(g *group)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(newGroup(t, p, n, stall, rand.New(rand.NewPCG(uint64(n), 1)))) })
}

// newGroup makes the contributions, offers and engines; nothing runs yet.
func newGroup(t testing.TB, p Params, n int, stall time.Duration, rng *rand.Rand) *group {
	t.Helper()
	if err := p.Validate(); err != nil {
		t.Fatal(err)
	}
	g := &group{
		t: t, rng: rng, params: p, vectors: make([][]float32, n), own: make([]*Contribution, n),
		running: make([]*Reduction, n), losses: make(chan slot.PeerID, 1024), size: 64 << 10, silent: -1,
	}
	g.plan = slot.Plan{Ref: slot.Ref{Height: 9, Prev: slot.Hash([]byte("prev"))}, Slot: 7}
	for i := range n {
		e, err := New(Config{
			Self: peerName(i), Run: testRun, Params: p, Transport: transport{g, i}, Stall: stall,
			Logger: slog.New(slog.NewTextHandler(t.Output(), nil)).With("self", i),
		})
		if err != nil {
			t.Fatal(err)
		}
		e.hearsay = min(e.hearsay, 100*time.Millisecond)
		g.engines = append(g.engines, e)
		g.sinks = append(g.sinks, new(recorder))
		g.plan.Offers = append(g.plan.Offers, slot.Offer{Peer: peerName(i), Weight: 1 + rng.Uint64N(1000)})
	}
	g.contribute()
	for i := range g.plan.Offers {
		g.plan.Offers[i].Base = g.plan.Slot - 1 - rng.Uint64N(uint64(len(p.Discount)))
	}
	t.Cleanup(g.close)
	return g
}

// contribute makes contributions and pieces for the plan's slot, and so for its fragment.
func (g *group) contribute() {
	g.plan.Opened.Ref, g.plan.Fragment = g.plan.Ref, slot.FragmentOf(g.plan.Slot, uint64(len(g.params.Fragments)))
	for i := range g.own {
		v := make([]float32, g.params.Fragments[g.plan.Fragment])
		size := float32(1 + 10*g.rng.IntN(3))
		for j := range v {
			v[j] = size * (g.rng.Float32() - 0.5)
		}
		own, err := Encode(g.params, g.plan.Fragment, peerName(i), Vector(v), nil)
		if err != nil {
			g.t.Fatal(err)
		}
		g.vectors[i] = v
		g.offer(i, own)
		*g.sinks[i] = recorder{losses: g.losses}
		g.sinks[i].mu.lost = make(map[slot.PeerID]Reason)
	}
	g.plan.Pieces = plan.Pieces(g.params, g.plan.Fragment, g.plan.Offers)
}

// offer has a peer offer a contribution.
func (g *group) offer(i int, c *Contribution) {
	o := &g.plan.Offers[i]
	g.own[i], o.Slot, o.Seq, o.Base = c, g.plan.Slot, o.Seq+1, g.plan.Slot-1
	o.Root, o.NormSq = c.Root(), c.NormSq()
}

// commit commits to bytes that nobody has checked.
func commit(g plan.Grid, self int, encoded []byte) *Contribution {
	c := newContribution(g, peerName(self), encoded)
	if err := c.commit(0, g.Frames, func(in *frame, f int) error {
		_ = in.decode(g, f, g.Frame(encoded, f))
		return nil
	}); err != nil {
		panic(err)
	}
	c.Recommit()
	return c
}

// transport is a peer's.
type transport struct {
	*group
	self int
}

func (tr transport) Open(_ context.Context, peer slot.PeerID) (wire.Stream, error) {
	to, err := strconv.Atoi(string(peer[len("peer-"):]))
	if err != nil || tr.dead[to].Load() {
		return nil, errors.New("no such peer")
	}
	var a, b wire.Stream
	a, b = testutil.Pipe(tr.size)
	if tr.wrap != nil {
		a, b = tr.wrap(tr.self, to, a), tr.wrap(to, tr.self, b)
	}
	if to != tr.silent {
		tr.wg.Go(func() { _ = tr.engines[to].Accept(peerName(tr.self), b) })
	}
	return a, nil
}

// apart has every header and frame written by itself, for streams that look at single Writes.
func (g *group) apart() {
	for _, e := range g.engines {
		e.together = 0
	}
}

// goRound makes the plan's schedule a ring, in an order that is drawn.
func (g *group) goRound() {
	g.plan.Ring = nil
	for _, i := range g.rng.Perm(len(g.plan.Offers)) {
		g.plan.Ring = append(g.plan.Ring, uint16(i))
	}
}

// revise makes the next revision of the plan, in which some peers are gone.
func (g *group) revise(gone ...int) {
	g.plan.Revision++
	g.plan.Gone = slot.NewBitmap(len(g.plan.Offers))
	g.gone = append(g.gone, gone...)
	for _, i := range g.gone {
		g.plan.Gone.Set(i)
		g.running[i] = nil
	}
	g.plan.Pieces = plan.Divide(g.params, g.plan, nil)
}

func (g *group) start(peers ...int) {
	g.t.Helper()
	for _, i := range peers {
		r, err := g.engines[i].Start(g.t.Context(), g.plan, g.own[i], g.sinks[i])
		if err != nil && !(errors.Is(err, net.ErrClosed) && g.dead[i].Load()) {
			g.t.Error(err)
		}
		g.running[i] = r
	}
}

// rest are the peers without some and those that are gone, in order.
func (g *group) rest(without ...int) (peers []int) {
	for i := range g.engines {
		if !slices.Contains(without, i) && !slices.Contains(g.gone, i) {
			peers = append(peers, i)
		}
	}
	return peers
}

// finish goes on by a revision without some peers to the end, and checks the outcome.
func (g *group) finish(gone ...int) {
	g.t.Helper()
	g.revise(gone...)
	g.start(g.rest()...)
	g.check()
}

// check waits for all running reductions and compares every peer's result with the reference, bit
// by bit: each range with the contributors that its owner names.
func (g *group) check() {
	g.t.Helper()
	for i, r := range g.running {
		if r == nil {
			continue
		}
		select {
		case <-r.Complete():
		case <-time.After(2 * time.Minute): // ends a broken test, never a good one
			g.t.Fatalf("peer %d does not complete; lost: %v", i, g.sinks[i].lost())
		}
	}
	var want []byte
	for _, s := range g.outcome() {
		offers, vectors := g.inputs(s)
		part := g.plan
		part.Offers = offers
		out := g.engines[0].outs[g.plan.Fragment]
		b := out.Codec.Append(nil, reference(g.params, part, vectors, g.order(s)))
		if size := out.FrameBytes; slot.Cut(b, size).Root(size) != s.Root {
			g.t.Fatalf("range %v has another root than the reference", s.Range)
		}
		want = append(want, b...)
	}
	for i, r := range g.running {
		if r == nil {
			continue
		}
		got := r.frames(slot.Range{End: g.params.Fragments[g.plan.Fragment]}).Bytes
		if got == nil || !bytes.Equal(got, want) {
			g.t.Fatalf("peer %d has another result (complete: %v)", i, got != nil)
		}
	}
}

// inputs are the offers of a segment's contributors, and what their vectors have in its range.
func (g *group) inputs(s slot.Segment) (offers []slot.Offer, vectors [][]float32) {
	for i, v := range g.vectors {
		if s.Contributors.Has(i) {
			offers, vectors = append(offers, g.plan.Offers[i]), append(vectors, v[s.Range.Begin:s.Range.End])
		}
	}
	return offers, vectors
}

// owner is whose piece begins at an element, or before it.
func (g *group) owner(at uint64) int { return g.plan.Place(g.plan.Pieces[g.plan.PieceAt(at)].Owner) }

// order is in which order the contributors to a segment are added up, as indices among them.
func (g *group) order(s slot.Segment) (order []int) {
	in := make(map[int]int)
	for i := range g.plan.Offers {
		if s.Contributors.Has(i) {
			in[i] = len(in)
		}
	}
	for _, place := range g.plan.Order(g.owner(s.Range.Begin), s.Contributors) {
		order = append(order, in[place])
	}
	return order
}

// outcome is what the owners of the newest plan have stated, which must cover the vector.
func (g *group) outcome() (all []slot.Segment) {
	g.t.Helper()
	for _, piece := range g.plan.Pieces {
		s := g.sinks[g.plan.Place(piece.Owner)]
		s.mu.Lock()
		for _, d := range s.mu.done {
			again := slices.ContainsFunc(all, func(o slot.Segment) bool { return o.Range == d.Range })
			if !again && piece.Range.Begin <= d.Range.Begin && d.Range.End <= piece.Range.End {
				all = append(all, d)
			}
		}
		s.mu.Unlock()
	}
	slices.SortFunc(all, func(a, b slot.Segment) int { return cmp.Compare(a.Range.Begin, b.Range.Begin) })
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
	g.wg.Wait()
}

// names fails unless each of some peers has named exactly one peer, for that reason.
func (g *group) names(by []int, peer int, reason Reason) {
	g.t.Helper()
	for _, i := range by {
		if l := g.sinks[i].lost(); len(l) != 1 || l[peerName(peer)] != reason {
			g.t.Errorf("peer %d names %v, want only peer %d for %s", i, l, peer, reason)
		}
	}
}

// nobody fails if one of some peers has named anybody.
func (g *group) nobody(by []int) {
	g.t.Helper()
	for _, i := range by {
		if l := g.sinks[i].lost(); len(l) != 0 {
			g.t.Errorf("peer %d names %v", i, l)
		}
	}
}

// after sets f to be called once so many frames have passed at a peer, which waits for it.
func (g *group) after(i, frames int, f func()) {
	var passed atomic.Int32
	g.sinks[i].progress = func() {
		if int(passed.Add(1)) == max(1, frames) {
			f()
		}
	}
}

// bent is a stream of which one call passes so many bytes as reads or writes says, which may take
// its time.
type bent struct {
	wire.Stream
	reads, writes func(b []byte) int
}

func (s bent) Read(b []byte) (int, error) {
	if s.reads != nil {
		b = b[:min(len(b), s.reads(b))]
	}
	return s.Stream.Read(b)
}

func (s bent) Write(b []byte) (int, error) {
	if s.writes != nil {
		b = b[:min(len(b), s.writes(b))]
	}
	return s.Stream.Write(b)
}

// slow passes so many bytes at once, and then a few at a time.
func slow(after, few int, each time.Duration) func([]byte) int {
	return func(b []byte) int {
		if after > 0 {
			n := min(len(b), after)
			after -= n
			return n
		}
		time.Sleep(each)
		return few
	}
}

// opened applies f to the stream of who has opened it, or of who has not, told by what is first
// written.
func opened(opens bool, f func([]byte) int) func([]byte) int {
	told, hello := false, false
	return func(b []byte) int {
		if !told {
			told, hello = true, len(b) >= helloSize && string(b[:3]) == "P2D"
		}
		if hello == opens {
			return f(b)
		}
		return len(b)
	}
}
