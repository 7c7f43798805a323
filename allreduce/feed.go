package allreduce

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/wire"
)

// feed sends the own contribution to the owner of a piece and takes the reduced piece back: steps 1
// and 5 of the data path.
type feed struct {
	*piece
	credit chan struct{} // one for each reduced frame that came back
}

// run opens the stream and carries it to its end. It returns when the piece is complete or lost.
func (f *feed) run() {
	s, err := f.r.engine.open(f.ctx, f.Owner)
	if err == nil {
		err = f.carry(s)
	}
	if err == nil {
		return
	}
	f.end(pieceFailed)
	if f.r.lastWord(f.ctx, reasonOf(err)) {
		return
	}
	f.r.lose(f.Owner, reasonOf(err), err)
}

// carry sends on one goroutine and receives on this one. Its error is of the side that failed
// first.
func (f *feed) carry(s wire.Stream) error {
	l, stop := f.r.link(f.ctx, s)
	defer stop()
	l.meter = f.r.engine.meter.counter(f.Owner)
	ctx, cancel := context.WithCancel(f.ctx)
	var sender sync.WaitGroup
	var failed error // sending; read after sender.Wait
	sender.Go(func() {
		if err := f.send(ctx, l); err != nil && ctx.Err() == nil {
			failed = err
			_ = s.Reset() // so that the receiver notices
		}
	})
	err := f.receive(l)
	cancel()
	if err == nil {
		sender.Wait()
		_ = s.Close()
		return nil
	}
	_ = s.Reset()
	sender.Wait()
	return cmp.Or(failed, err)
}

// send writes hello, leaves and raw frames, a window ahead of what comes back, and then only that
// it is alive.
func (f *feed) send(ctx context.Context, l *link) error {
	if err := l.put(f.opening()); err != nil {
		return err
	}
	alive := time.NewTicker(l.stall / 4)
	defer alive.Stop()
	credit := f.of.window
	for next := f.first; ; {
		if credit > 0 && next < f.last {
			if err := f.sendFrame(l, next, credit == 1 || next+1 == f.last); err != nil {
				return err
			}
			next++
			credit--
			continue
		}
		if err := l.flush(); err != nil {
			return err
		}
		select {
		case <-f.credit:
			credit++
		case <-alive.C:
			if err := l.writeAlive(f.taken.Load()); err != nil {
				return err
			}
		case <-ctx.Done():
			return nil
		}
	}
}

// opening is the hello and the leaves of the whole contribution.
func (f *feed) opening() []byte {
	own := f.r.own
	plan := f.r.Plan()
	h := hello{
		Run: f.r.engine.cfg.Run, Ref: plan.Ref, Revision: plan.Revision, Group: f.r.group, Range: f.Range,
		Frames: uint32(len(own.leaves)),
	}
	b := h.Append(make([]byte, 0, helloSize+len(own.leaves)*slot.FrameLeafSize))
	for _, l := range own.leaves {
		b = l.Append(b)
	}
	return b
}

func (f *feed) sendFrame(l *link, index int, last bool) error {
	raw := &f.r.engine.raw
	frame := f.r.grid.Frame(f.r.own.data, index)
	packed := raw.pack(frame)
	done := f.r.engine.lanes.turn(f.ctx, &l.lane)
	defer done()
	err := raw.write(l, kindRaw, index, frame, packed, last)
	f.r.moved()
	return err
}

// receive reads the reduced frames into the result, and the root.
func (f *feed) receive(l *link) error {
	g := f.r.out
	moved, told := progress{at: time.Now()}, false
	for next := f.first; ; {
		h, err := l.readHeader()
		switch {
		case err != nil:
			return unexpected(err)
		case h.Kind == kindAlive:
			// an owner that is held up by another contributor names it long before this limit
			err = l.heard(&moved, 4*l.stall)
		case h.Kind == kindRefuse:
			return f.refused(l)
		case h.Kind == kindFigures && next == f.last && !told:
			told, err = true, f.published(l, h)
		case h.Kind == kindRoot && next == f.last:
			return f.complete(l)
		case next < f.last && h.carries(kindReduced, next, g.FrameSize(next)):
			b := g.Frame(f.r.result, next)
			if err = l.readFrameInto(b, h, f.r.engine.coders, &f.taken); err == nil {
				f.r.hashed(next)
				f.credit <- struct{}{}
				f.taken.Add(uint64(len(b)) - uint64(h.Length)) // as if it had come unpacked
				f.r.moved()
				moved.moved()
				next++
			}
		default:
			err = fmt.Errorf("%w: kind %d, index %d, %d bytes where reduced frame %d was due", errBadBytes, h.Kind,
				h.Index, h.Length, next)
		}
		if err != nil {
			return err
		}
	}
}

// complete reads the owner's root and checks it against the frames that came.
func (f *feed) complete(l *link) error {
	var claimed slot.Root
	if err := l.readPayload(claimed[:], nil); err != nil {
		return err
	}
	if f.r.rootOf(f.first, f.last) != claimed {
		return fmt.Errorf("%w: the root is not that of the frames", errBadBytes)
	}
	f.end(pieceDone)
	return nil
}

// published reads the owner's figures. They are for people, so what makes no sense is taken for
// nothing.
func (f *feed) published(l *link, h header) error {
	size := slot.FigureRowSize(len(f.r.offers))
	if uint64(h.Length) != uint64(size)*uint64(f.last-f.first) {
		return fmt.Errorf("%w: %d bytes of figures", errBadBytes, h.Length)
	}
	rows, b := make([]slot.FigureRow, 0, f.last-f.first), make([]byte, size)
	valid := true
	for range f.last - f.first {
		if err := l.readPayload(b, &f.taken); err != nil {
			return err
		}
		row := slot.ReadFigureRow(wire.NewReader(b), len(f.r.offers))
		rows, valid = append(rows, row), valid && row.Valid()
	}
	f.r.mu.Lock()
	defer f.r.mu.Unlock()
	if valid && f.figures == nil {
		f.figures = rows
	}
	return nil
}

func (f *feed) refused(l *link) error {
	var reason [refuseSize]byte
	if err := l.readPayload(reason[:], nil); err != nil {
		return err
	}
	return fmt.Errorf("%w by the owner: %s", errRefused, Reason(reason[0]))
}
