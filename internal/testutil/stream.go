package testutil

import (
	"errors"
	"io"
	"os"
	"sync"
	"time"
)

// ErrReset is what both ends of a stream get that was reset.
var ErrReset = errors.New("stream reset")

// direction is one direction of an in-memory stream: a bounded buffer with deadlines.
type direction struct {
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

func newDirection(size int) *direction {
	h := &direction{}
	h.mu.buf = make([]byte, size)
	h.moved = sync.NewCond(&h.mu)
	return h
}

func expired(end time.Time) bool { return !end.IsZero() && !time.Now().Before(end) }

func (h *direction) Read(b []byte) (int, error) {
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

func (h *direction) Write(b []byte) (done int, err error) {
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

// late says whether the writer's deadline has passed, and it has not ended this direction.
func (h *direction) late() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return !h.mu.eof && expired(h.mu.writeEnd)
}

func (h *direction) end(err error) {
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

func (h *direction) deadline(t time.Time, end *time.Time, tick **time.Timer) {
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

// Stream is one end of a stream in memory. It implements wire.Stream.
type Stream struct{ in, out *direction }

// Pipe makes a stream, of which each direction buffers so many bytes.
func Pipe(size int) (a, b *Stream) {
	x, y := newDirection(size), newDirection(size)
	return &Stream{x, y}, &Stream{y, x}
}

// Read implements wire.Stream.
func (s *Stream) Read(b []byte) (int, error) { return s.in.Read(b) }

// Write implements wire.Stream.
func (s *Stream) Write(b []byte) (int, error) { return s.out.Write(b) }

// CloseWrite implements wire.Stream. Where the write deadline has passed it fails, as on a bulk
// connection, which has to send the end.
func (s *Stream) CloseWrite() error {
	if s.out.late() {
		return os.ErrDeadlineExceeded
	}
	s.out.end(nil)
	return nil
}

// Close implements wire.Stream.
func (s *Stream) Close() error { s.out.end(nil); return nil }

// Reset implements wire.Stream.
func (s *Stream) Reset() error {
	s.in.end(ErrReset)
	s.out.end(ErrReset)
	return nil
}

// SetReadDeadline implements wire.Stream.
func (s *Stream) SetReadDeadline(t time.Time) error {
	s.in.deadline(t, &s.in.mu.readEnd, &s.in.mu.readTick)
	return nil
}

// SetWriteDeadline implements wire.Stream.
func (s *Stream) SetWriteDeadline(t time.Time) error {
	s.out.deadline(t, &s.out.mu.writeEnd, &s.out.mu.writeTik)
	return nil
}

// SetDeadline implements wire.Stream.
func (s *Stream) SetDeadline(t time.Time) error {
	_ = s.SetReadDeadline(t)
	return s.SetWriteDeadline(t)
}
