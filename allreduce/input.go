package allreduce

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/p2pdiloco/p2pdiloco/allreduce/internal/plan"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/wire"
)

var errNoStream = errors.New("it opened no stream")

// input is one contributor to an own piece.
type input struct {
	p        *ownPiece
	place    int // in the group
	offer    slot.Offer
	attached bool // its stream has arrived; guarded by the reduction's mu
	left     bool // it gives no more frames than it has; guarded by the reduction's mu
	excused  bool // it left since the piece has no use for it; guarded by the reduction's mu
	// when it last did what it owes, in nanoseconds since the piece began; 0 before, and never once
	// nothing is owed
	moved  atomic.Int64
	ctx    context.Context
	cancel context.CancelFunc
	// room for frames: window tokens, one taken by each frame that is not reduced yet
	free    chan struct{}
	full    chan arrival  // checked frames in order, for the reducer
	gone    chan struct{} // closed when left is set
	at      *frame        // the reducer's: the frame at hand; nil if there will be none
	times   frameTimes
	ready   chan int    // reduced frames in order, for the writer; p.last when the root is known
	refused chan Reason // for the writer: tell the contributor and stop
}

// arrival is a checked frame, and when it came.
type arrival struct {
	frame *frame
	at    time.Time
}

func newInput(p *ownPiece, place int, o slot.Offer) *input {
	w := p.of.window
	in := &input{
		p: p, place: place, offer: o, free: make(chan struct{}, w), full: make(chan arrival, w),
		gone: make(chan struct{}),
	}
	for range w {
		in.free <- struct{}{}
	}
	in.ctx, in.cancel = context.WithCancel(p.ctx)
	in.ready = make(chan int, p.last-p.first+1)
	in.refused = make(chan Reason, 1)
	return in
}

// quit says that no more frames come. Those that came count. The reduction's mu is held.
func (in *input) quit() {
	if !in.left {
		in.left = true
		close(in.gone)
	}
}

// lost ends the contribution to this piece at once. The peer is to blame, and left out of all own
// pieces to come, unless the piece itself ends: see Reduction.lastWord. A peer that sent values of
// no use is left out of the other own pieces as well.
func (in *input) lost(reason Reason, err error) {
	r := in.p.r
	r.mu.Lock()
	in.quit()
	if in.excused && reason == Connection {
		r.mu.Unlock()
		return
	}
	if reason != Connection {
		for _, p := range in.p.of.pieces {
			if other := p.input(in.place); other != nil {
				other.quit()
			}
		}
	}
	r.mu.Unlock()
	if r.lastWord(in.ctx, reason) {
		return
	}
	r.mu.Lock()
	in.p.of.dropped.Set(in.place)
	r.mu.Unlock()
	r.lose(in.offer.Peer, reason, err)
}

// next puts frame f into at, or nil if the contributor was lost and all that came before is used.
// It is false if the piece has ended. While it waits it calls judge now and then.
func (in *input) next(f int, look <-chan time.Time, judge func()) bool {
	for !in.poll(f) {
		select {
		case a := <-in.full:
			in.arrived(a, f)
		case <-in.gone:
			in.poll(f)
			return true
		case <-look:
			judge()
		case <-in.p.ctx.Done():
			return false
		}
	}
	return true
}

// poll says whether frame f is at hand, and takes it if it has come.
func (in *input) poll(f int) bool {
	if in.at != nil {
		return true
	}
	select {
	case a := <-in.full:
		in.arrived(a, f)
		return true
	default:
		return false
	}
}

func (in *input) arrived(a arrival, f int) {
	in.at = a.frame
	in.times.count(in.p.roomAt(f), a.at)
}

// serveOwn feeds this peer's own contribution by the same path, without a stream.
func (in *input) serveOwn() {
	g := in.p.r.grid
	for f := in.p.first; f < in.p.last; f++ {
		fr, err := in.acquireFrame()
		if err != nil {
			return
		}
		own := in.p.r.own
		if err := fr.decode(g, f, g.Frame(own.data, f)); err != nil {
			in.lost(reasonOf(err), err)
			return
		}
		fr.norm = own.leaves[f].NormSq
		in.full <- arrival{fr, in.p.began}
	}
}

// acquireFrame waits for room. A contributor that keeps to the window never makes it wait.
func (in *input) acquireFrame() (*frame, error) {
	select {
	case <-in.free:
		return in.p.r.engine.frames.Get().(*frame), nil
	case <-in.ctx.Done():
		return nil, in.ctx.Err()
	}
}

// serve carries one contributor's stream to its end. It came at a time that may be before the piece
// began. The hello has been read.
func (in *input) serve(s wire.Stream, came time.Time) {
	defer in.p.leave()
	in.times.waited = min(max(0, in.p.began.Sub(came)), in.p.r.engine.cfg.Stall/4)
	l, stop := in.p.r.link(in.ctx, s)
	defer stop()
	l.meter = in.p.r.engine.meter.counter(in.offer.Peer)
	ctx, cancel := context.WithCancel(in.ctx)
	var writer sync.WaitGroup
	var failed error // writing; nil if all is written; read after writer.Wait
	writer.Go(func() {
		if failed = in.write(ctx, l); failed != nil && ctx.Err() == nil && !errors.Is(failed, errRefused) {
			_ = s.Reset() // so that the reader notices
		}
	})
	err := in.readAll(l)
	if reason := reasonOf(err); err != nil && reason != Connection {
		// before the piece goes on without it: its end must not overtake the refusal
		in.refuse(reason)
		in.lost(reason, err)
		in.drain(l)
	}
	if err != nil {
		cancel()
		// A write that still blocks must not outlast the reader. What was delivered has been closed
		// for writing: a reset would take it back.
		_ = s.SetWriteDeadline(time.Now())
	}
	writer.Wait()
	cancel()
	if failed == nil {
		_ = s.Close()
		return
	}
	_ = s.Reset()
	in.lost(Connection, cmp.Or(failed, err))
}

// readAll reads the commitment and all raw frames, and then alive messages until the contributor
// has what it wants and closes.
func (in *input) readAll(l *link) error {
	leaves, err := in.readLeaves(l)
	if err != nil {
		return err
	}
	moved := progress{at: time.Now()}
	for f := in.p.first; ; {
		in.moved.Store(int64(moved.at.Sub(in.p.began)))
		if f == in.p.last {
			in.moved.Store(never)
		}
		h, err := l.readHeader()
		switch {
		case errors.Is(err, io.EOF) && f == in.p.last:
			return nil
		case err != nil:
			return unexpected(err)
		case h.Kind == kindAlive:
			// who owes raw frames, the reducer having used up all that came, must send some
			if f == in.p.last || len(in.full) > 0 {
				moved.moved()
			}
			err = l.heard(&moved, 2*l.stall)
		case f < in.p.last && h.carries(kindRaw, f, in.p.r.grid.FrameSize(f)):
			err = in.readFrame(l, h, f, leaves)
			moved.moved()
			f++
		default:
			err = fmt.Errorf("%w: kind %d, index %d, %d bytes where raw frame %d was due", errBadBytes, h.Kind, h.Index,
				h.Length, f)
		}
		if err != nil {
			return err
		}
	}
}

// readLeaves reads what the whole contribution commits to and checks it against the root that was
// offered.
func (in *input) readLeaves(l *link) ([]slot.FrameLeaf, error) {
	r, g := in.p.r, in.p.r.grid
	leaves := make([]slot.FrameLeaf, g.Frames)
	var b [slot.FrameLeafSize]byte
	for i := range leaves {
		if err := l.readPayload(b[:], &in.p.taken); err != nil {
			return nil, err
		}
		leaves[i] = slot.ReadFrameLeaf(wire.NewReader(b[:]))
	}
	if slot.ContributionRoot(in.offer.Peer, leaves, g.FrameBytes, uint64(g.TotalBytes)) != in.offer.Root {
		return nil, fmt.Errorf("%w: hashes and norms of frames are not those that were offered", errBadBytes)
	}
	if slot.TotalNormSq(leaves) != in.offer.NormSq {
		return nil, &BadTotal{Peer: in.offer.Peer, Stated: in.offer.NormSq, Leaves: leaves}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	known := in.p.of.seen
	if known[in.place] == nil {
		known[in.place] = leaves
	}
	return known[in.place], nil
}

// readFrame reads a frame, checks it, and hands it to the reducer.
func (in *input) readFrame(l *link, h header, f int, leaves []slot.FrameLeaf) error {
	in.moved.Store(never) // a frame comes, or waits for the reducer
	fr, err := in.acquireFrame()
	if err != nil {
		return err
	}
	g := in.p.r.grid
	if cap(fr.buf) < g.FrameSize(f) {
		fr.buf = make([]byte, g.FrameSize(0)) // none is larger
	}
	b := fr.buf[:g.FrameSize(f)]
	if err := l.readFrameInto(b, h, in.p.r.engine.coders, &in.p.taken); err != nil {
		return err
	}
	if slot.Hash(b) != leaves[f].Hash {
		return fmt.Errorf("%w: frame %d is not the one that was offered", errBadBytes, f)
	}
	if err := fr.check(g, f, b, leaves[f]); err != nil {
		return &BadFrame{
			Peer: in.offer.Peer, Frame: f, Bytes: bytes.Clone(b), Leaf: leaves[f],
			Path: slot.ContributionTree(leaves).Path(f), Err: err,
		}
	}
	in.full <- arrival{fr, time.Now()}
	in.p.r.moved()
	return nil
}

// drain lets the contributor read why it was refused before the stream goes: it ends when the
// contributor resets or closes.
func (in *input) drain(l *link) {
	_ = l.s.SetReadDeadline(time.Now().Add(l.stall))
	_, _ = io.Copy(io.Discard, io.LimitReader(l.s, drainBytes))
}

// drainBytes is more than a contributor may have in flight.
const drainBytes = 2 * plan.StreamWindow

// write sends the reduced frames as they come out, then the root.
func (in *input) write(ctx context.Context, l *link) error {
	alive := time.NewTicker(l.stall / 4)
	defer alive.Stop()
	for {
		select {
		case f := <-in.ready:
			select {
			case reason := <-in.refused: // it came first: the piece went on without these bytes
				return refuse(l, reason)
			default:
			}
			if f == in.p.last {
				return in.writeRoot(l)
			}
			if err := in.writeFrame(l, f); err != nil {
				return err
			}
		case <-alive.C:
			if len(in.ready) > 0 {
				continue // a frame says as much
			}
			if err := l.writeAlive(in.p.taken.Load()); err != nil {
				return err
			}
		case reason := <-in.refused:
			return refuse(l, reason)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// refuse has the writer tell the contributor that the piece goes on without it.
func (in *input) refuse(reason Reason) {
	select {
	case in.refused <- reason:
	default: // it was told
	}
}

// refuse is the last message to a contributor that sent bytes of no use.
func refuse(l *link, reason Reason) error {
	if l.put(appendRefuse(nil, reason)) == nil {
		_ = l.flush()
	}
	return errRefused
}

func (in *input) writeFrame(l *link, f int) error {
	frame, reduced := in.p.r.out.Frame(in.p.r.result, f), &in.p.r.engine.reduced
	once := &in.p.packed[f-in.p.first]
	once.Do(func() { once.packed = reduced.pack(frame) })
	done := in.p.r.engine.lanes.turn(in.ctx, &l.lane)
	defer done()
	err := reduced.write(l, kindReduced, f, frame, once.packed, len(in.ready) == 0)
	in.p.r.moved()
	return err
}

func (in *input) writeRoot(l *link) error {
	if err := l.put(appendRoot(appendFigures(nil, in.p.figures), in.p.root)); err != nil {
		return err
	}
	if err := l.flush(); err != nil {
		return err
	}
	return l.closeWrite()
}
