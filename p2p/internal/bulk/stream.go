package bulk

import (
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/libp2p/go-libp2p/core/protocol"

	"github.com/p2pdiloco/p2pdiloco/internal/wire"
	"github.com/p2pdiloco/p2pdiloco/p2p/internal/limits"
)

// What the end of a stream may take until its connection is not worth keeping.
const (
	endTimeout = 10 * time.Second // for our own last bytes
	// for the other side's: it may still be reading what the kernel holds, which a reset would take
	// from it
	endLinger = time.Minute
	endBytes  = 1 << 20 // that nobody reads any more
)

// Stream is one stream on a bulk connection. Reset resets the connection; after a clean end
// another stream may follow.
type Stream struct {
	c     *conn
	proto protocol.ID
	gate  *limits.WriteTurns
	inlet *limits.ReadTurns
	done  func(clean bool) // called once, when the stream has the connection no more
	once  sync.Once
	broke atomic.Bool // the connection failed while the stream was open

	r struct {
		sync.Mutex // held by the reader
		left       int
		ended      bool
	}
	w struct {
		sync.Mutex      // held by the writer
		cut        bool // the last Write took a part only
		ended      bool
		endErr     error // of CloseWrite: what was written did not all leave
	}
	mu struct {
		sync.Mutex
		closed bool
	}
}

func newStream(c *conn, proto protocol.ID, done func(clean bool)) *Stream {
	s := &Stream{c: c, proto: proto, done: done}
	s.gate, s.inlet = limits.NewWriteTurns(c.b.env.Upload), limits.NewReadTurns(c.b.env.Download)
	return s
}

// Read implements io.Reader. After a timeout reading may go on.
func (s *Stream) Read(b []byte) (int, error) {
	s.r.Lock()
	defer s.r.Unlock()
	if s.isClosed() {
		return 0, net.ErrClosed
	}
	n, err := s.inlet.Take(len(b))
	if err != nil {
		return 0, err
	}
	if n, err = s.read(b[:n]); n > 0 {
		s.inlet.Came(n)
		s.c.b.env.Count.LogRecvMessageStream(int64(n), s.proto, "")
		s.c.b.env.Saw(s.c.peer)
	}
	s.note(err)
	return n, err
}

// note keeps in mind that the connection failed, by nobody's doing here. The other side's reset
// looks like that, too.
func (s *Stream) note(err error) {
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) ||
		errors.Is(err, syscall.ETIMEDOUT) {
		s.broke.Store(true)
	}
}

// read is called with r held.
func (s *Stream) read(b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	if s.r.left == 0 {
		if err := s.nextMessage(); err != nil {
			return 0, err
		}
	}
	n, err := s.c.tls.Read(b[:min(len(b), s.r.left)])
	s.r.left -= n
	if n > 0 {
		err = nil // it comes again
	}
	return n, cutShort(err)
}

// nextMessage reads up to the next bytes of the stream.
func (s *Stream) nextMessage() error {
	if s.r.ended {
		return io.EOF
	}
	h, err := s.c.readHeader()
	switch {
	case err != nil:
		if errors.Is(err, wire.ErrMalformed) || errors.Is(err, errWornOut) {
			s.c.close()
		}
		return err
	case h.kind == kindData:
		s.r.left = h.length
		return nil
	case h.kind == kindEnd:
		s.r.ended = true
		return io.EOF
	default:
		s.c.close()
		return wire.ErrMalformed
	}
}

// Close ends the stream: what was written arrives, what arrives is not read. It does not wait for
// the other side. What cannot be sent in time is lost, and a reset says so to both sides.
func (s *Stream) Close() error {
	s.mu.Lock()
	again := s.mu.closed
	s.mu.closed = true
	s.mu.Unlock()
	if again {
		return nil
	}
	s.inlet.End()
	// Readers end at once; writers have a while.
	now := time.Now()
	_ = s.c.raw.SetReadDeadline(now)
	_ = s.c.raw.SetWriteDeadline(now.Add(endTimeout))
	s.gate.Until(now.Add(endTimeout))
	if err := s.CloseWrite(); err != nil {
		s.abort()
		return err
	}
	if !s.c.b.env.Tasks.Go(s.finish) {
		s.abort()
	}
	return nil
}

// finish reads to the end of the stream, so that the connection can be used for another.
func (s *Stream) finish() {
	s.r.Lock()
	defer s.r.Unlock()
	if err := s.c.raw.SetReadDeadline(time.Now().Add(endLinger)); err != nil {
		s.abort()
		return
	}
	n, err := io.Copy(io.Discard, io.LimitReader(readerFunc(s.read), endBytes))
	if err != nil || n == endBytes || s.c.raw.SetDeadline(time.Time{}) != nil {
		s.abort()
		return
	}
	s.once.Do(func() { s.done(true) })
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(b []byte) (int, error) { return f(b) }

// Reset ends both directions at once. The other side sees an error. After Close it does nothing:
// what was written still arrives.
func (s *Stream) Reset() error {
	s.mu.Lock()
	again := s.mu.closed
	s.mu.closed = true
	s.mu.Unlock()
	if !again {
		s.abort()
	}
	return nil
}

// abort ends the connection with the stream, unless it serves another by now.
func (s *Stream) abort() {
	s.gate.End()
	s.inlet.End()
	s.once.Do(func() {
		s.c.close()
		s.done(false)
	})
}

func (s *Stream) isClosed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.closed
}

// unlessClosed sets a deadline of the connection, which belongs to others once the stream is
// closed.
func (s *Stream) unlessClosed(set func(time.Time) error, t time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.closed {
		return net.ErrClosed
	}
	return set(t)
}

// SetDeadline sets both deadlines.
func (s *Stream) SetDeadline(t time.Time) error {
	s.gate.Until(t)
	s.inlet.Until(t)
	return s.unlessClosed(s.c.raw.SetDeadline, t)
}

// SetReadDeadline sets when Read gives up.
func (s *Stream) SetReadDeadline(t time.Time) error {
	s.inlet.Until(t)
	return s.unlessClosed(s.c.raw.SetReadDeadline, t)
}

// SetWriteDeadline sets when Write and CloseWrite give up.
func (s *Stream) SetWriteDeadline(t time.Time) error {
	s.gate.Until(t)
	return s.unlessClosed(s.c.raw.SetWriteDeadline, t)
}

// Write implements io.Writer. Where the deadline passes with a part of b taken, writing may go on:
// what is taken will be sent. Taken is not sent: but once a write has run out of time no other
// takes anything before something has left, so that a writer that goes on while that helps finds a
// dead peer out with the second.
func (s *Stream) Write(b []byte) (n int, err error) {
	s.w.Lock()
	defer s.w.Unlock()
	if s.w.ended {
		return 0, net.ErrClosed
	}
	if n, err = s.goOn(b); err == nil {
		n, err = s.write(b)
	}
	s.w.cut = err != nil && n < len(b)
	s.note(err)
	s.c.b.env.Count.LogSentMessageStream(int64(n), s.proto, "")
	return n, err
}

// write is called with w held, while nothing waits to be sent.
func (s *Stream) write(b []byte) (n int, err error) {
	for n < len(b) && err == nil {
		var k int
		if k, err = s.gate.Take(min(s.c.room(), len(b)-n)); err != nil {
			break
		}
		if err = s.c.put(kindData, b[n:n+k]); err == nil {
			_, err = s.c.records.Flush()
			n += k
		}
	}
	return n, err
}

// sign is how much of a Write is taken to say that something left.
const sign = 1 << 10

// goOn sends what a write left that ran out of time. If this one does, too, a little of b is taken
// for what has left.
func (s *Stream) goOn(b []byte) (int, error) {
	left, err := s.c.records.Flush()
	k := min(s.c.room(), len(b), sign)
	if left == 0 || k == 0 || !wire.TimedOut(err) {
		return 0, err
	}
	s.gate.Force(k)
	if err := s.c.put(kindData, b[:k]); err != nil {
		return 0, err
	}
	return k, err
}

// CloseWrite says that no more bytes follow. After a write that took a part only, and that no other
// made up for, it says nothing: the other side would take the part for all.
func (s *Stream) CloseWrite() error {
	s.w.Lock()
	defer s.w.Unlock()
	if !s.w.ended {
		s.w.ended = true
		s.w.endErr = s.end()
	}
	return s.w.endErr
}

var errCut = errors.New("the end is not sent: a write before it failed")

// end is called with w held.
func (s *Stream) end() error {
	if s.w.cut {
		return errCut
	}
	if s.c.room() == 0 {
		if _, err := s.c.records.Flush(); err != nil {
			return err
		}
	}
	if err := s.c.put(kindEnd, nil); err != nil {
		return err
	}
	_, err := s.c.records.Flush()
	return err
}
