package allreduce

import (
	"context"
	"errors"
	"io"
	"os"
	"sync"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/wire"
)

var errReset = errors.New("stream reset")

// half is one direction of an in-memory stream: a bounded buffer with deadlines.
type half struct {
	mu struct {
		sync.Mutex
		buf                []byte
		r, n               int // where the data begins, and how much there is
		eof                bool
		err                error
		readEnd, writeEnd  time.Time
		readTick, writeTik *time.Timer
	}
	moved *sync.Cond
}

func newHalf(size int) *half {
	h := &half{}
	h.mu.buf = make([]byte, size)
	h.moved = sync.NewCond(&h.mu)
	return h
}

func expired(end time.Time) bool { return !end.IsZero() && !time.Now().Before(end) }

func (h *half) Read(b []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for {
		switch {
		case h.mu.err != nil:
			return 0, h.mu.err
		case h.mu.n > 0:
			n := copy(b, h.mu.buf[h.mu.r:min(len(h.mu.buf), h.mu.r+h.mu.n)])
			h.mu.r = (h.mu.r + n) % len(h.mu.buf)
			h.mu.n -= n
			h.moved.Broadcast()
			return n, nil
		case h.mu.eof:
			return 0, io.EOF
		case expired(h.mu.readEnd):
			return 0, os.ErrDeadlineExceeded
		}
		h.moved.Wait()
	}
}

func (h *half) Write(b []byte) (done int, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for len(b) > 0 {
		switch {
		case h.mu.err != nil:
			return done, h.mu.err
		case h.mu.eof:
			return done, io.ErrClosedPipe
		case h.mu.n < len(h.mu.buf):
			at := (h.mu.r + h.mu.n) % len(h.mu.buf)
			n := copy(h.mu.buf[at:min(len(h.mu.buf), at+len(h.mu.buf)-h.mu.n)], b)
			h.mu.n += n
			done += n
			b = b[n:]
			h.moved.Broadcast()
			continue
		case expired(h.mu.writeEnd):
			return done, os.ErrDeadlineExceeded
		}
		h.moved.Wait()
	}
	return done, nil
}

func (h *half) end(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err == nil {
		h.mu.eof = true
	} else if h.mu.err == nil {
		h.mu.err = err
	}
	for _, t := range []*time.Timer{h.mu.readTick, h.mu.writeTik} {
		if t != nil {
			t.Stop()
		}
	}
	h.moved.Broadcast()
}

func (h *half) deadline(t time.Time, end *time.Time, tick **time.Timer) {
	h.mu.Lock()
	defer h.mu.Unlock()
	*end = t
	if *tick != nil {
		(*tick).Stop()
	}
	if !t.IsZero() && h.mu.err == nil {
		*tick = time.AfterFunc(time.Until(t), h.moved.Broadcast)
	}
	h.moved.Broadcast()
}

// memStream is one end of an in-memory stream.
type memStream struct{ in, out *half }

func newMemPipe(size int) (a, b *memStream) {
	x, y := newHalf(size), newHalf(size)
	return &memStream{x, y}, &memStream{y, x}
}

func (s *memStream) Read(b []byte) (int, error)  { return s.in.Read(b) }
func (s *memStream) Write(b []byte) (int, error) { return s.out.Write(b) }
func (s *memStream) CloseWrite() error           { s.out.end(nil); return nil }
func (s *memStream) Close() error                { s.out.end(nil); return nil }
func (s *memStream) Reset() error {
	s.in.end(errReset)
	s.out.end(errReset)
	return nil
}

func (s *memStream) SetReadDeadline(t time.Time) error {
	s.in.deadline(t, &s.in.mu.readEnd, &s.in.mu.readTick)
	return nil
}

func (s *memStream) SetWriteDeadline(t time.Time) error {
	s.out.deadline(t, &s.out.mu.writeEnd, &s.out.mu.writeTik)
	return nil
}

func (s *memStream) SetDeadline(t time.Time) error {
	_ = s.SetReadDeadline(t)
	return s.SetWriteDeadline(t)
}

// memNet connects engines. wrap, if set, may replace the stream of an end by something worse.
type memNet struct {
	size int // bytes that a direction buffers
	wrap func(local, remote slot.PeerID, s wire.Stream) wire.Stream
	// streams to this peer are held open, and nobody serves them
	silent slot.PeerID
	wg     sync.WaitGroup
	mu     struct {
		sync.Mutex
		engines map[slot.PeerID]*Engine
	}
}

func newMemNet(size int) *memNet {
	n := &memNet{size: size}
	n.mu.engines = make(map[slot.PeerID]*Engine)
	return n
}

func (n *memNet) add(e *Engine) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.mu.engines[e.cfg.Self] = e
}

func (n *memNet) alive(p slot.PeerID) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.mu.engines[p] != nil
}

// memTransport is one peer's view of the net.
type memTransport struct {
	net  *memNet
	self slot.PeerID
}

func (t memTransport) Open(_ context.Context, peer slot.PeerID) (wire.Stream, error) {
	t.net.mu.Lock()
	e := t.net.mu.engines[peer]
	t.net.mu.Unlock()
	if e == nil {
		return nil, errors.New("no such peer")
	}
	var a, b wire.Stream
	a, b = newMemPipe(t.net.size)
	if t.net.wrap != nil {
		a, b = t.net.wrap(t.self, peer, a), t.net.wrap(peer, t.self, b)
	}
	if peer == t.net.silent {
		return a, nil
	}
	t.net.wg.Go(func() { _ = e.Accept(t.self, b) })
	return a, nil
}
