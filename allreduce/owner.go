package allreduce

import (
	"errors"
	"slices"
	"time"

	"github.com/p2pdiloco/p2pdiloco/allreduce/internal/plan"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

var errTooManyRanges = errors.New("too many contributors were lost one by one: an outcome has no room for so many " +
	"ranges")

// ownPiece is a piece that this peer reduces: steps 2 to 4 of the data path. It is cut into ranges
// where contributors are lost: within a range the contributors do not change.
type ownPiece struct {
	*piece
	root   slot.Root // of the reduced piece; set before input.ready says that all is reduced
	began  time.Time
	packed []once // reduced frames that go compressed
	// when the frames of a window, the newest that are reduced, made room for others; the reducer's
	rooms []time.Time
}

// newOwnPiece makes the piece. The reduction's mu is held.
func newOwnPiece(p *piece) *ownPiece {
	own := &ownPiece{
		piece: p, began: time.Now(), packed: make([]once, p.last-p.first), rooms: make([]time.Time, p.of.window),
	}
	p.inputs = make([]*input, len(p.r.offers))
	for i, o := range p.r.offers {
		if !p.of.dropped.Has(i) && !p.r.mu.plan.Gone.Has(i) {
			own.inputs[i] = newInput(own, i, o)
		}
	}
	return own
}

// start starts the piece's own goroutines; those of the inputs start when their streams arrive.
func (p *ownPiece) start() {
	p.spawn(p.reduce)
	if in := p.inputs[p.r.self]; in != nil {
		p.spawn(in.serveOwn)
	}
}

// dropAbsent names the contributors that have opened no stream for the stall timeout. The piece
// goes on without them.
func (p *ownPiece) dropAbsent() {
	if time.Since(p.began) < p.r.engine.cfg.Stall {
		return
	}
	for i, in := range p.inputs {
		if i != p.r.self && in != nil && in.absent() {
			p.r.lose(in.offer.Peer, Connection, errNoStream)
		}
	}
}

// absent ends the contribution of a peer that has opened no stream.
func (in *input) absent() bool {
	r := in.p.r
	r.mu.Lock()
	defer r.mu.Unlock()
	if in.attached || in.left {
		return false
	}
	in.quit()
	in.p.of.dropped.Set(in.place)
	return true
}

// span is a range being reduced.
type span struct {
	begin int      // its first frame
	set   []*input // its contributors
	gauge *gauge
	cols  [][]float32
	norms []float64
}

// reduce takes each frame of all contributors, in peer-ID order, and puts the aggregate where it
// belongs in the result. Where a contributor is lost the range ends with the last frame that was
// complete with it, and the next one begins without it: what the others have sent counts as it is.
func (p *ownPiece) reduce() {
	g := p.r.grid
	sum := make([]float32, g.FrameElements)
	look := time.NewTicker(p.r.engine.cfg.Stall / 2)
	defer look.Stop()
	var s *span
	for f := p.first; f < p.last; f++ {
		left, ok := p.collect(s, f, look.C)
		if !ok {
			return
		}
		if s == nil || len(left) < len(s.set) {
			p.close(s, f)
			if s = p.open(left, f); s == nil {
				return
			}
		}
		for i, in := range s.set {
			s.cols[i], s.norms[i] = in.at.values, in.at.norm
		}
		p.reduceFrame(s, f, sum[:g.FrameLen(f)])
		p.compare(f, s.cols)
		p.r.hashed(f)
		p.giveBack(s, f)
		p.publish(f)
	}
	p.root = p.r.rootOf(p.first, p.last)
	p.close(s, p.last) // first: a peer that has the bytes may count on the statement
	p.publish(p.last)
	p.end(pieceDone)
}

// reduceFrame puts frame f of the outcome into the result, and its row into the figures.
func (p *ownPiece) reduceFrame(s *span, f int, sum []float32) {
	var lie func(values []float32)
	if do := p.r.engine.cfg.Reduced; do != nil {
		lie = func(values []float32) { do(p.r.slot, f, values) }
	}
	// Nobody knows the group when it commits to its contribution, so nobody can tell at which
	// coordinates trimmed values are counted.
	at := int(p.r.group[f%len(p.r.group)])<<8 | int(p.r.group[(f+1)%len(p.r.group)])
	row := s.gauge.reduce(p.r.out.Frame(p.r.result, f), sum, s.cols, s.norms, at, lie)
	p.figures = append(p.figures, spread(row, s.set, len(p.inputs)))
}

// collect gets frame f of each contributor to a range and returns the contributors that are left: a
// lost one has no frame. Without a range all are asked. While it waits it checks now and then
// whether the contributor that it waits for is too slow.
func (p *ownPiece) collect(s *span, f int, look <-chan time.Time) (left []*input, ok bool) {
	set := p.inputs
	if s != nil {
		set = s.set
	}
	left = make([]*input, 0, len(set))
	for _, in := range set {
		if in == nil {
			continue
		}
		if !in.next(f, look, func() { p.dropAbsent(); p.judge(set, f) }) {
			return nil, false
		}
		if in.at != nil {
			left = append(left, in)
		}
	}
	return left, true
}

// open begins a range at frame f once there are enough contributors: until then a revision must
// name the peers that are gone. It returns nil if the piece has ended meanwhile, or an outcome has
// no room for more ranges.
func (p *ownPiece) open(set []*input, f int) *span {
	if int(p.r.ranges.Add(1)) > slot.MaxRanges(len(p.inputs)) {
		p.r.lose(p.Owner, TooManyRanges, errTooManyRanges)
		return nil
	}
	set = p.within(set)
	if !p.awaitWide(len(set)) {
		return nil
	}
	offers := make([]slot.Offer, len(set))
	for i, in := range set {
		offers[i] = in.offer
	}
	agg, err := plan.NewAggregation(p.r.engine.cfg.Params, p.r.slot, p.r.usual, offers)
	if err != nil {
		panic("allreduce: the plan's offers were not checked: " + err.Error())
	}
	return &span{
		begin: f, set: set, gauge: newGauge(agg, p.r.out.Codec, len(set)),
		cols:  make([][]float32, len(set)),
		norms: make([]float64, len(set)),
	}
}

// within returns the contributors that a range may have together, and ends what the others give to
// the piece.
func (p *ownPiece) within(set []*input) []*input {
	all := slot.NewBitmap(len(p.inputs))
	for _, in := range set {
		all.Set(in.place)
	}
	p.r.mu.Lock()
	sink := p.r.mu.sink
	p.r.mu.Unlock()
	may := sink.Within(all)
	return slices.DeleteFunc(set, func(in *input) bool {
		if may.Has(in.place) {
			return false
		}
		in.excuse()
		return true
	})
}

// awaitWide waits until so many contributors are enough for a range (slot.Plan.Wide).
func (p *ownPiece) awaitWide(contributors int) bool {
	for {
		p.r.mu.Lock()
		wide, revised := p.r.mu.plan.Wide(contributors, p.r.engine.cfg.Params.MinPeers), p.of.revised
		p.r.mu.Unlock()
		if wide {
			return true
		}
		select {
		case <-revised:
		case <-p.ctx.Done():
			return false
		}
	}
}

// close ends a range before frame end and tells the sink.
func (p *ownPiece) close(s *span, end int) {
	if s == nil {
		return
	}
	set := slot.NewBitmap(len(p.inputs))
	for _, in := range s.set {
		set.Set(in.place)
	}
	segment := slot.Segment{
		Range: p.r.grid.Elements(s.begin, end), Contributors: set, Root: p.r.rootOf(s.begin, end),
	}
	p.r.mu.Lock()
	p.closed = append(p.closed, segment)
	sink := p.r.mu.sink
	p.r.mu.Unlock()
	sink.SegmentDone(segment)
}

// rootOf is the root of frames [first, last) of the outcome.
func (r *Reduction) rootOf(first, last int) slot.Root {
	return slot.FrameRoot(r.hashes[first:last], r.out.FrameBytes, uint64(r.out.Size(first, last)))
}

// giveBack makes room for the next frames of every contributor, frame f being reduced.
func (p *ownPiece) giveBack(s *span, f int) {
	p.rooms[(f-p.first)%len(p.rooms)] = time.Now()
	for _, in := range s.set {
		p.r.engine.frames.Put(in.at)
		in.at = nil
		in.free <- struct{}{}
	}
}

// publish tells the writers that frame f is reduced, or with p.last that the root is known. The
// next peer of the ring comes first. It never blocks.
func (p *ownPiece) publish(f int) {
	n := len(p.inputs)
	for shift := 1; shift < n; shift++ {
		if in := p.inputs[(p.r.self+shift)%n]; in != nil {
			in.ready <- f
		}
	}
}
