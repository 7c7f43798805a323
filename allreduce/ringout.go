package allreduce

import (
	"cmp"
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/kernel"
	"github.com/p2pdiloco/p2pdiloco/internal/wire"
)

// run opens the stream to the next peer and carries it to its end.
func (g *ring) run() {
	next := g.circle.Next(g.place)
	s, err := g.r.engine.open(g.ctx, g.peer(next))
	if err == nil {
		err = g.carry(s)
	}
	if err != nil {
		g.lost(next, err)
	}
}

// carry greets, and then writes on this goroutine and reads signs of life on another one.
func (g *ring) carry(s wire.Stream) error {
	l, stop := g.r.link(g.ctx, s)
	defer stop()
	l.meter = g.r.engine.meter.counter(g.peer(g.circle.Next(g.place)))
	err := l.writeAll(g.greeting())
	var has []int
	if err == nil {
		has, err = g.readTable(l)
	}
	if err != nil {
		_ = s.Reset()
		return err
	}
	ctx, cancel := context.WithCancel(g.ctx)
	defer cancel()
	var reader sync.WaitGroup
	var failed error // reading; read after reader.Wait
	reader.Go(func() {
		if failed = g.hear(l); failed != nil {
			cancel()
			_ = s.Reset() // so that the writer notices
		}
	})
	err = g.write(ctx, l, has)
	if err == nil {
		err = l.closeWrite()
	}
	if err != nil {
		_ = s.Reset()
		reader.Wait()
		return cmp.Or(failed, err)
	}
	reader.Wait()
	if failed != nil {
		_ = s.Reset()
		return failed
	}
	return s.Close()
}

// hear reads alive messages until the next peer has all and closes.
func (g *ring) hear(l *link) error {
	for {
		h, err := l.readHeader()
		switch {
		case errors.Is(err, io.EOF) && g.complete():
			return nil
		case err != nil:
			return unexpected(err)
		case h.Kind != kindAlive:
			return errBadBytes
		}
		if _, err := l.readAlive(); err != nil {
			return err
		}
	}
}

// write sends what the next peer has not: first what is in the result, then what comes.
func (g *ring) write(ctx context.Context, l *link, has []int) error {
	for i, p := range g.pieces {
		g.mu.Lock()
		have := p.have
		g.mu.Unlock()
		if g.peer(g.circle.Next(g.place)) == p.Owner {
			continue
		}
		for f := has[i]; f < have; f++ {
			if err := l.writeFrame(kindPassed, f, g.r.out.Frame(g.r.result, f)); err != nil {
				return err
			}
		}
		has[i] = max(has[i], have)
	}
	alive := time.NewTicker(l.stall / 4)
	defer alive.Stop()
	for {
		p, ok, done := g.pick()
		switch {
		case done:
			return l.flush()
		case ok:
			if err := g.send(l, p, has); err != nil {
				return err
			}
			continue
		}
		if err := l.flush(); err != nil { // before waiting
			return err
		}
		select {
		case <-g.stir:
		case <-alive.C:
			if err := l.writeAlive(g.r.received.Load()); err != nil {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// pick takes the next parcel: from the queue, or one that begins here. done says that there will be
// none.
func (g *ring) pick() (p parcel, ok, done bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.mu.queue) > 0 {
		p = g.mu.queue[0]
		g.mu.queue[0] = parcel{}
		g.mu.queue = g.mu.queue[1:]
		return p, true, false
	}
	done = true
	for i, p := range g.pieces {
		done = done && p.have == p.last
		f := g.mu.begin[i]
		if f >= 0 && f < min(p.last, p.have+g.window) && isClosed(g.known) {
			g.mu.begin[i]++
			return parcel{kind: kindPartial, index: f}, true, false
		}
	}
	return parcel{}, false, done
}

// send writes a parcel.
func (g *ring) send(l *link, p parcel, has []int) error {
	switch p.kind {
	case kindNorms:
		g.mu.Lock()
		norms := g.mu.norms[p.index]
		g.mu.Unlock()
		return l.writeFrame(kindNorms, p.index, appendNorms(nil, norms))
	case kindPassed:
		if p.index < has[g.pieceOf(p.index)] {
			return nil // it was sent with what stood in the result
		}
		return l.writeFrame(kindPassed, p.index, g.r.out.Frame(g.r.result, p.index))
	default:
		return g.sendPartial(l, p)
	}
}

// sendPartial writes a partial result; of the peer at the start of the way it is its own
// contribution.
func (g *ring) sendPartial(l *link, p parcel) error {
	if p.lanes == nil {
		p.lanes, p.n = g.takePartial(), 1
		if err := g.add(p.lanes, p.index, 0); err != nil {
			return &ownError{err}
		}
		g.r.moved()
	}
	err := l.writeFrame(kindPartial, p.index, kernel.Bytes(p.lanes.values))
	g.r.engine.partials.Put(p.lanes)
	return err
}
