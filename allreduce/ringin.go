package allreduce

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/kernel"
	"github.com/p2pdiloco/p2pdiloco/internal/wire"
)

// serve carries the stream of the peer before to its end. The hello has been read.
func (g *ring) serve(s wire.Stream, _ time.Time) {
	defer g.leave()
	l, stop := g.r.link(g.ctx, s)
	defer stop()
	in := &incoming{ring: g, l: l, seen: make([]int, len(g.pieces))}
	err := in.readAll()
	in.quit()
	if err == nil {
		_ = s.Close()
		return
	}
	_ = s.Reset()
	g.lost(g.circle.Before(g.place), err)
}

// ownError is a fault of this peer's own contribution.
type ownError struct{ error }

func (e *ownError) Unwrap() error { return e.error }

// incoming is what comes from the peer before.
type incoming struct {
	*ring
	l          *link
	seen       []int // the next partial result of each piece; 0: none has come
	alive      sync.WaitGroup
	end        context.CancelFunc
	frameTimer *time.Timer // runs while a frame comes
	dripFn     atomic.Bool
}

// quit ends what says alive to the peer before.
func (in *incoming) quit() {
	if in.end != nil {
		in.end()
		_ = in.l.s.SetWriteDeadline(time.Now())
		in.alive.Wait()
	}
}

// readAll reads what the peer before has, tells it what is here, and takes frames until there is
// nothing more to come.
func (in *incoming) readAll() error {
	has, err := in.readTable(in.l)
	if err != nil {
		return err
	}
	if err := in.l.writeAll(in.table()); err != nil {
		return err
	}
	if err := in.start(has); err != nil {
		return err
	}
	in.sayAlive()
	in.frameTimer = time.AfterFunc(time.Hour, func() {
		in.dripFn.Store(true)
		_ = in.l.s.Reset()
	})
	defer in.frameTimer.Stop()
	in.frameTimer.Stop()
	for {
		h, err := in.l.readHeader()
		if errors.Is(err, io.EOF) && in.complete() {
			return nil
		}
		if err == nil {
			in.frameTimer.Reset(in.frameTimeout(int(h.Length)))
			err = in.readBody(h)
			in.frameTimer.Stop()
		}
		switch {
		case in.dripFn.Load():
			return errDrips
		case err != nil:
			return unexpected(err)
		}
	}
}

// frameTimeout is how long a frame may be on its way, whether its peer is alive or not: see
// slowpeer.go.
func (in *incoming) frameTimeout(bytes int) time.Duration {
	stall := in.l.stall
	return outpacedStalls*stall + time.Duration(float64(stall)*float64(bytes)/minChunk)
}

// start says from where on the pieces of the peer before begin here: at what it has not reduced
// yet.
func (in *incoming) start(has []int) error {
	in.mu.Lock()
	defer in.wake()
	defer in.mu.Unlock()
	for i, seat := range in.seats {
		if seat != 0 {
			continue
		}
		if has[i] < in.pieces[i].have {
			return fmt.Errorf("%w: it has less of its own piece than came from it", errBadBytes)
		}
		in.mu.begin[i] = has[i]
	}
	return nil
}

// sayAlive tells the peer before that this one lives, until quit.
func (in *incoming) sayAlive() {
	ctx, cancel := context.WithCancel(in.ctx)
	in.end = cancel
	in.alive.Go(func() {
		tick := time.NewTicker(in.l.stall / 4)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				if in.l.writeAlive(in.r.received.Load()) != nil {
					return
				}
			case <-ctx.Done():
				return
			}
		}
	})
}

// complete says whether the result is.
func (g *ring) complete() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, p := range g.pieces {
		if p.have < p.last {
			return false
		}
	}
	return true
}

// readBody reads what follows a header.
func (in *incoming) readBody(h header) error {
	switch h.Kind {
	case kindAlive:
		_, err := in.l.readAlive()
		return err
	case kindNorms:
		return in.readNorms(in.l, h)
	case kindPartial:
		return in.readPartial(h)
	case kindPassed:
		return in.readPassed(h)
	default:
		return fmt.Errorf("%w: kind %d in a ring", errBadBytes, h.Kind)
	}
}

// readPassed reads a reduced frame into the result.
func (in *incoming) readPassed(h header) error {
	f, i := int(h.Index), in.pieceOf(int(h.Index))
	if i < 0 || f != in.standing(i) || in.peer(in.place) == in.pieces[i].Owner ||
		int(h.Length) != in.r.out.FrameSize(f) {
		return fmt.Errorf("%w: %w: reduced frame %d of %d bytes", errBadBytes, errOutOfTurn, f, h.Length)
	}
	if err := in.l.readPayload(in.r.out.Frame(in.r.result, f), nil); err != nil {
		return err
	}
	in.r.hashed(f)
	in.noteFrame(i, f)
	return nil
}

// standing is the first frame of a piece that is not in the result.
func (g *ring) standing(i int) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.pieces[i].have
}

// readPartial reads a partial result, adds the own contribution and sends it on, or makes the
// outcome of it. Honest peers check what they add and what they are given: a value that is out of
// bounds comes from the peer before.
func (in *incoming) readPartial(h header) error {
	f, i := int(h.Index), in.pieceOf(int(h.Index))
	if i < 0 || !in.due(i, f) || int(h.Length) != 4*kernel.Lanes(in.trim, in.seats[i])*in.r.grid.FrameLen(f) {
		return fmt.Errorf("%w: %w: partial result of frame %d, %d bytes", errBadBytes, errOutOfTurn, f, h.Length)
	}
	in.seen[i] = f + 1
	room, n := in.takePartial(), in.seats[i]
	room.grow(kernel.Lanes(in.trim, n+1) * in.r.grid.FrameLen(f))
	lanes := room.values[:h.Length/4]
	if err := in.l.readPayload(kernel.Bytes(lanes), nil); err != nil {
		return err
	}
	if at := kernel.BoundedLanes(lanes, in.trim, n); at >= 0 {
		return fmt.Errorf("%w: %w: lane value %d of frame %d", errBadBytes, ErrNotFinite, at, f)
	}
	if err := in.add(room, f, n); err != nil {
		return &ownError{err}
	}
	if err := in.opens(in.pieces[i], f); err != nil {
		return &ownError{err}
	}
	if n+1 < len(in.circle) {
		in.put(parcel{kind: kindPartial, index: f, lanes: room, n: n + 1})
		in.r.moved()
		return nil
	}
	in.finish(f, room)
	in.r.engine.partials.Put(room)
	in.noteFrame(i, f)
	return nil
}

// due says whether a partial result may come now: the window is the piece's in the whole ring, and
// what came back is ahead of what it made room for.
func (in *incoming) due(i, f int) bool {
	have, p := in.standing(i), in.pieces[i]
	switch {
	case in.seats[i] == 0 || f < have || f >= have+in.window || f >= p.last || !isClosed(in.known):
		return false
	case in.seats[i] == len(in.circle)-1:
		return f == have
	}
	return in.seen[i] == 0 || f == in.seen[i]
}
