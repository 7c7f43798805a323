package allreduce

import (
	"cmp"
	"context"
	"errors"
	"sort"
	"sync"
	"time"

	"github.com/p2pdiloco/p2pdiloco/allreduce/internal/plan"
	"github.com/p2pdiloco/p2pdiloco/internal/kernel"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// Schedule ring. Each peer has one stream to the next peer of the ring and one from the peer
// before, for all pieces together:
//
//  1. Writer (one goroutine): opens the stream, sends what it has of each piece, receives what the
//     next peer has, and writes what is in the queue, in order. With nothing in the queue it begins
//     frames of the piece that starts here, at most a window ahead of the reduced frames that came
//     back.
//  2. Reader (the goroutine of the stream that came): reads partial results, adds its own
//     contribution, and puts them into the queue. Those of its own pieces it finishes: it trims,
//     divides, encodes and hashes. It reads reduced frames straight into the result buffer. They go
//     into the queue as well, unless the next peer is the one they come from.
//
// No cycle of waiting is possible: the window bounds how many partial results of a piece there are
// in all, so that every peer has room for whatever it may be sent, and a reader never waits for a
// writer.
//
// Where a peer is lost the circle stops. A revision of the plan starts another circle without it:
// what is reduced stays, here and elsewhere, and each peer tells the peer before it from which
// frame on it needs the rest. Partial results that were under way are begun again, from
// contributions that all peers still have; a range never mixes circles.
type ring struct {
	of     *rings
	r      *Reduction
	key    plan.RoundKey
	circle plan.Circle
	place  int
	pieces []*roundPiece // of the plan, in order
	seats  []int         // own position in each of them
	trim   int
	window int
	scales []float32 // of all in the circle, in peer-ID order
	self   int       // the own one of them
	ctx    context.Context
	cancel context.CancelFunc
	workers
	stir chan struct{} // there may be something to write
	came chan struct{} // closed when the stream of the peer before is here

	attached bool // guarded by the reduction's mu
	mu       struct {
		sync.Mutex
		queue []parcel
		// the next frame to begin, of each piece; -1 where it does not start here, or is not known
		// yet
		begin []int
		norms map[int][]float64
	}
	// own factor for each frame, once all norms are here; read after clipped is closed
	clip  []float32
	known chan struct{}
}

// parcel is what goes to the next peer.
type parcel struct {
	kind  frameKind
	index int      // of the frame; for norms, the place of the peer that they belong to
	lanes *partial // of a partial result
	n     int      // how many contributions are in it
}

// partial is room for a partial result.
type partial struct{ values []float32 }

func (p *partial) grow(n int) {
	if cap(p.values) < n {
		p.values = make([]float32, n)
	}
	p.values = p.values[:n]
}

// newRing makes a circle of the plan. The reduction's mu is held.
func newRing(of *rings) *ring {
	r, current := of.r, of.r.mu.plan
	g := &ring{
		of: of, r: r, key: plan.KeyOf(current), circle: plan.Circle(current.Circle()), place: r.self,
		stir: make(chan struct{}, 1), came: make(chan struct{}), known: make(chan struct{}),
		workers: workers{all: &r.wg},
	}
	g.ctx, g.cancel = context.WithCancel(r.ctx)
	g.trim = r.engine.cfg.Params.Trimmed(len(g.circle))
	g.window = r.grid.RoundWindow(len(current.Pieces), g.trim)
	g.mu.norms = make(map[int][]float64)
	for _, p := range current.Pieces {
		g.pieces = append(g.pieces, of.piece(p))
		g.seats = append(g.seats, g.circle.Position(current.Place(p.Owner), r.self))
		g.mu.begin = append(g.mu.begin, -1)
	}
	g.weigh(current)
	return g
}

// weigh finds the scales of all in the circle.
func (g *ring) weigh(current slot.Plan) {
	var offers []slot.Offer
	for i, o := range current.Offers {
		if current.Gone.Has(i) {
			continue
		}
		if i == g.place {
			g.self = len(offers)
		}
		offers = append(offers, o)
	}
	agg, err := plan.NewAggregation(g.r.engine.cfg.Params, current.Slot, current.Usual, offers)
	if err != nil {
		panic("allreduce: the plan's offers were not checked: " + err.Error())
	}
	g.scales = agg.Scale
	if !agg.Clip {
		close(g.known)
	}
}

func (g *ring) peer(place int) slot.PeerID { return g.r.offers[place].Peer }

// watch names the peer before if it opens no stream.
func (g *ring) watch() {
	timer := time.NewTimer(g.r.engine.cfg.Stall)
	defer timer.Stop()
	select {
	case <-timer.C:
		g.lost(g.circle.Before(g.place), errNoStream)
	case <-g.came:
	case <-g.ctx.Done():
	}
}

// lost says that a peer failed, unless the circle has ended: see Reduction.lastWord. Nothing more
// will come by this circle.
func (g *ring) lost(place int, err error) {
	if own, is := errors.AsType[*ownError](err); is {
		place, err = g.place, own.error
	}
	reason := reasonOf(err)
	if g.r.lastWord(g.ctx, reason) {
		return
	}
	g.r.mu.Lock()
	for _, p := range g.pieces {
		if p.status == pieceOpen {
			p.status = pieceFailed
		}
	}
	g.r.tally()
	g.r.mu.Unlock()
	g.r.lose(g.peer(place), reason, err)
}

// pieceOf is the index of the piece that a frame lies in, or -1.
func (g *ring) pieceOf(frame int) int {
	i := sort.Search(len(g.pieces), func(i int) bool { return g.pieces[i].last > frame })
	if i == len(g.pieces) {
		return -1
	}
	return i
}

// put queues parcels.
func (g *ring) put(ps ...parcel) {
	g.mu.Lock()
	g.mu.queue = append(g.mu.queue, ps...)
	g.mu.Unlock()
	g.wake()
}

func (g *ring) wake() {
	select {
	case g.stir <- struct{}{}:
	default:
	}
}

// add puts the own contribution to frame f into a partial result of n others.
func (g *ring) add(p *partial, f, n int) error {
	own := g.r.engine.frames.Get().(*frame)
	defer g.r.engine.frames.Put(own)
	grid := g.r.grid
	if err := own.decode(grid, f, grid.Frame(g.r.own.data, f)); err != nil {
		return err
	}
	p.grow(kernel.Lanes(g.trim, n+1) * grid.FrameLen(f))
	kernel.AddLane(p.values, own.values, g.scale(f), g.trim, n)
	return nil
}

// scale is the own one, of frame f.
func (g *ring) scale(f int) float32 {
	if g.clip != nil {
		return g.clip[f]
	}
	return g.scales[g.self]
}

// finish makes the outcome of a frame of an own piece.
func (g *ring) finish(f int, lanes *partial) {
	params, grid := g.r.engine.cfg.Params, g.r.out
	values := lanes.values
	if params.Aggregator != Mean {
		values = lanes.values[:grid.FrameLen(f)]
		kernel.FinishLanes(values, lanes.values, g.trim, len(g.circle))
	}
	encoded := grid.Frame(g.r.result, f)
	grid.Codec.Append(encoded[:0], values)
	g.r.hashed(f)
}

// noteFrame says that frame f of a piece is in the result, and sends it on.
func (g *ring) noteFrame(i, f int) {
	p := g.pieces[i]
	if f+1 == p.last {
		g.closeRange(p, p.last) // first: a peer that has the bytes may count on the statement
	}
	g.mu.Lock()
	p.have = f + 1
	if next := g.circle.Next(g.place); len(g.circle) > 1 && g.peer(next) != p.Owner {
		g.mu.queue = append(g.mu.queue, parcel{kind: kindPassed, index: f})
	}
	g.mu.Unlock()
	g.wake()
	if f+1 == p.last {
		g.r.mu.Lock()
		p.status = pieceDone
		g.r.tally()
		g.r.mu.Unlock()
	}
	g.r.moved()
}

// closeRange ends a range of an own piece before frame end and tells the sink. It is empty if
// nothing was reduced since the last one.
func (g *ring) closeRange(p *roundPiece, end int) {
	if g.peer(g.place) != p.Owner || p.begin == end {
		return
	}
	s := slot.Segment{
		Range: g.r.out.Elements(p.begin, end), Contributors: g.circle.Set(len(g.r.offers)),
		Root: g.r.rootOf(p.begin, end),
	}
	g.r.mu.Lock()
	p.begin = end
	p.closed = append(p.closed, s)
	sink := g.r.mu.sink
	g.r.mu.Unlock()
	sink.SegmentDone(s)
}

// alone is the circle of one: what it has is the outcome.
func (g *ring) alone() {
	g.learn()
	room := g.takePartial()
	defer g.r.engine.partials.Put(room)
	for i, p := range g.pieces {
		for f := p.have; f < p.last && g.ctx.Err() == nil; f++ {
			if err := cmp.Or(g.add(room, f, 0), g.opens(p, f)); err != nil {
				g.lost(g.place, err)
				return
			}
			g.finish(f, room)
			g.noteFrame(i, f)
		}
	}
}

// opens counts the range that an owner begins with frame f, if it does. An outcome has room for so
// many; circles in which nothing of the piece comes round take none.
func (g *ring) opens(p *roundPiece, f int) error {
	if g.peer(g.place) == p.Owner && f == p.begin && int(g.r.ranges.Add(1)) > slot.MaxRanges(len(g.r.offers)) {
		return errTooManyRanges
	}
	return nil
}

func (g *ring) takePartial() *partial { return g.r.engine.partials.Get().(*partial) }

var errOutOfTurn = errors.New("sent out of turn")
