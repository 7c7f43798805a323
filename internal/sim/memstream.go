package sim

import (
	"bytes"
	"io"
	"os"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
)

const (
	maxParcel = 64 << 10 // bytes
	maxUnread = 1 << 20  // bytes of a stream that wait to be read
)

// memoryStream is one end of a stream.
type memoryStream struct {
	conn  *memoryConn
	other *memoryStream
	// for its reader and for its writer: something has changed
	readable, writable chan struct{}

	// guarded by the network's lock
	queue           []parcel  // sent to here, and not read
	queued          int       // bytes
	last            time.Time // when what was sent last from here comes
	hidden          bool      // nothing was sent yet: the other end does not know of the stream
	shut            bool      // nothing more is read here: what comes is dropped
	closed          bool      // nothing more is written here
	readBy, writeBy time.Time
}

// parcel is bytes; nil: the end.
type parcel struct {
	at   time.Time // when it is there
	lost bool      // it was sent over a cut link
	b    []byte
}

func newStream(c *memoryConn) *memoryStream {
	return &memoryStream{conn: c, readable: make(chan struct{}, 1), writable: make(chan struct{}, 1)}
}

// Read implements network.MuxedStream. It returns at most what one Write has sent.
func (s *memoryStream) Read(b []byte) (int, error) {
	return s.retry((*memoryStream).readArrived, s.readable, b)
}

// Write implements network.MuxedStream.
func (s *memoryStream) Write(b []byte) (n int, err error) {
	for k := 0; n < len(b) && err == nil; n += k {
		k, err = s.retry((*memoryStream).put, s.writable, b[n:])
	}
	return n, err
}

// retry tries to do something with bytes until it is done, or has failed. Each try says until when
// to wait for a change; zero stands for ever.
func (s *memoryStream) retry(
	try func(*memoryStream, []byte) (int, time.Time, error),
	changed <-chan struct{},
	b []byte,
) (int, error) {
	for {
		n, until, err := try(s, b)
		if n > 0 || err != nil || len(b) == 0 {
			return n, err
		}
		var due <-chan time.Time
		if !until.IsZero() {
			due = time.After(time.Until(until))
		}
		select {
		case <-changed:
		case <-s.conn.life.Done():
		case <-due:
		}
	}
}

// readArrived reads bytes that have arrived.
func (s *memoryStream) readArrived(b []byte) (n int, until time.Time, err error) {
	defer s.lock().Unlock()
	if err := s.check(s.shut, s.readBy); err != nil {
		return 0, until, err
	}
	until = s.first()
	if until.IsZero() || until.After(time.Now()) {
		if until.IsZero() || !s.readBy.IsZero() && s.readBy.Before(until) {
			until = s.readBy
		}
		return 0, until, nil
	}
	head := &s.queue[0]
	if head.b == nil {
		return 0, until, io.EOF
	}
	n = copy(b, head.b)
	if head.b = head.b[n:]; len(head.b) == 0 {
		s.queue = s.queue[1:]
	}
	s.queued -= n
	signal(s.other.writable)
	return n, until, nil
}

// put sends some bytes, unless the window is full.
func (s *memoryStream) put(b []byte) (n int, until time.Time, err error) {
	defer s.lock().Unlock()
	if err = s.check(s.closed, s.writeBy); err == nil && s.other.queued < maxUnread {
		n = min(len(b), maxParcel)
		s.send(bytes.Clone(b[:n]))
	}
	return n, s.writeBy, err
}

// arrive lets the other host accept a stream that it was sent something over: as in QUIC, a stream
// is there with its first bytes.
func (s *memoryStream) arrive() {
	mu := s.lock()
	at := s.first()
	mu.Unlock()
	if at.After(time.Now()) {
		time.AfterFunc(time.Until(at), s.arrive)
	} else if !at.IsZero() { // it was not reset
		select {
		case s.conn.opened <- s:
		case <-s.conn.life.Done():
		}
	}
}

// CloseWrite implements network.MuxedStream. Where the write deadline has passed it fails, as on a
// bulk connection, which has to send the end.
func (s *memoryStream) CloseWrite() error {
	defer s.lock().Unlock()
	err := s.check(s.closed, s.writeBy)
	if err == nil {
		s.finish()
	}
	return err
}

// CloseRead implements network.MuxedStream.
func (s *memoryStream) CloseRead() error {
	defer s.lock().Unlock()
	s.drop()
	return nil
}

// Close implements network.MuxedStream.
func (s *memoryStream) Close() error {
	defer s.lock().Unlock()
	s.finish()
	s.drop()
	return nil
}

// Reset implements network.MuxedStream.
func (s *memoryStream) Reset() error {
	defer s.lock().Unlock()
	if s.check(s.shut && s.closed, time.Time{}) == nil {
		s.end()
		s.conn.tell(s.last, s.other.end)
	}
	return nil
}

// ResetWithError implements network.MuxedStream.
func (s *memoryStream) ResetWithError(network.StreamErrorCode) error { return s.Reset() }

// SetDeadline implements network.MuxedStream.
func (s *memoryStream) SetDeadline(t time.Time) error {
	return s.setDeadlines(t, &s.readBy, &s.writeBy)
}

// SetReadDeadline implements network.MuxedStream.
func (s *memoryStream) SetReadDeadline(t time.Time) error { return s.setDeadlines(t, &s.readBy) }

// SetWriteDeadline implements network.MuxedStream.
func (s *memoryStream) SetWriteDeadline(t time.Time) error { return s.setDeadlines(t, &s.writeBy) }

func (s *memoryStream) setDeadlines(t time.Time, deadlines ...*time.Time) error {
	defer s.lock().Unlock()
	for _, d := range deadlines {
		*d = t
	}
	signal(s.readable)
	signal(s.writable)
	return nil
}

// lock takes the network's lock, which it returns.
func (s *memoryStream) lock() *sync.Mutex {
	mu := &s.conn.node.net.mu.Mutex
	mu.Lock()
	return mu
}

// The lock is held for what follows.

// check says why one direction of a stream is of no use, if it is not.
func (s *memoryStream) check(over bool, deadline time.Time) error {
	switch {
	case over || s.conn.IsClosed():
		return network.ErrReset
	case !deadline.IsZero() && !time.Now().Before(deadline):
		return os.ErrDeadlineExceeded
	}
	return nil
}

// send puts a parcel on its way.
func (s *memoryStream) send(b []byte) {
	far, from, to := s.other, s.conn.node, s.conn.other.node
	lasts := time.Duration(float64(len(b)) * 8 / float64(from.rate) * float64(time.Second))
	from.free = latest(from.free, time.Now()).Add(lasts)
	s.last = latest(s.last, from.free.Add(from.net.delay(from, to)))
	s.conn.last = latest(s.conn.last, s.last)
	if !far.shut {
		far.queue = append(far.queue, parcel{at: s.last, lost: from.net.lost(from, to), b: b})
		far.queued += len(b)
		signal(far.readable)
	}
	if s.hidden {
		s.hidden = false
		time.AfterFunc(time.Until(s.last), far.arrive)
	}
}

// first returns when the first bytes arrive or have arrived; zero: there are none. Those that were
// lost are sent again.
func (s *memoryStream) first() time.Time {
	if len(s.queue) == 0 {
		return time.Time{}
	}
	head, now := &s.queue[0], time.Now()
	if head.lost && !head.at.After(now) {
		if head.lost = s.conn.node.net.lost(s.conn.other.node, s.conn.node); head.lost {
			head.at = now.Add(lostRetry)
		}
	}
	return head.at
}

// finish ends what is written here.
func (s *memoryStream) finish() {
	if !s.closed {
		s.closed = true
		s.send(nil)
		signal(s.writable)
	}
}

// drop ends what is read here.
func (s *memoryStream) drop() {
	s.shut, s.queue, s.queued = true, nil, 0
	signal(s.readable)
	signal(s.other.writable)
}

// end breaks this end off.
func (s *memoryStream) end() {
	s.drop()
	s.closed = true
	signal(s.writable)
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// signal wakes the goroutine that waits, or the next one.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
