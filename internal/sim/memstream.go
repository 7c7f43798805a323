package sim

import (
	"bytes"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
)

// lostRetry is the time until bytes that were lost on a cut link are sent again.
const lostRetry = 250 * time.Millisecond

// memoryStream is one end of a stream: a pipe to read from and one to write to.
type memoryStream struct {
	conn    *memoryConn
	other   *memoryStream
	in, out *pipe
	opener  bool
	taken   atomic.Bool // it was accepted
}

var _ network.MuxedStream = (*memoryStream)(nil)

// pipe is one direction of a stream.
type pipe struct {
	from, to *memoryHost
	wake     chan struct{} // for its reader: something was sent, or has changed
	room     chan struct{} // for its writer: something was read, or has changed
	mu       struct {
		sync.Mutex
		queue  []parcel
		queued int       // bytes
		last   time.Time // when the newest comes
		shut   bool      // by its reader: what comes is dropped
		closed bool      // by its writer

		readBy, writeBy time.Time // deadlines
	}
}

// parcel is bytes; none: the end.
type parcel struct {
	at   time.Time // when it is there
	lost bool      // it was sent over a cut link
	b    []byte
}

func (q *parcel) here(now time.Time) bool { return !q.lost && !q.at.After(now) }

// Read implements network.MuxedStream.
func (s *memoryStream) Read(b []byte) (int, error) {
	for {
		n, next, err := s.in.take(b)
		if n > 0 || err != nil || len(b) == 0 {
			return n, err
		}
		pause(s.in.wake, nil, next)
	}
}

// take returns bytes that have arrived, or the time at which to look again; zero stands for never.
func (p *pipe) take(b []byte) (n int, next time.Time, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	switch {
	case p.mu.shut:
		return 0, next, network.ErrReset
	case !p.mu.readBy.IsZero() && !now.Before(p.mu.readBy):
		return 0, next, os.ErrDeadlineExceeded
	}
	p.retry(now)
	for n < len(b) && len(p.mu.queue) > 0 && p.mu.queue[0].here(now) {
		head := &p.mu.queue[0]
		if head.b == nil {
			if n == 0 {
				return 0, next, io.EOF
			}
			break
		}
		k := copy(b[n:], head.b)
		if head.b, n = head.b[k:], n+k; len(head.b) == 0 {
			p.mu.queue = p.mu.queue[1:]
		}
	}
	if n > 0 {
		p.mu.queued -= n
		signal(p.room)
		return n, next, nil
	}
	if len(p.mu.queue) > 0 {
		next = p.mu.queue[0].at
	}
	return 0, earlier(next, p.mu.readBy), nil
}

// retry sends the first parcel again if it was lost. mu is held.
func (p *pipe) retry(now time.Time) {
	if len(p.mu.queue) == 0 || !p.mu.queue[0].lost || p.mu.queue[0].at.After(now) {
		return
	}
	head := &p.mu.queue[0]
	if head.lost = p.cut(); head.lost {
		head.at = now.Add(lostRetry)
	}
}

// cut says whether bytes that are sent now are lost.
func (p *pipe) cut() bool { return p.from.memory.net.lost(p.from.index, p.to.index) }

// Write implements network.MuxedStream.
func (s *memoryStream) Write(b []byte) (n int, err error) {
	for n < len(b) {
		k, next, err := s.out.put(b[n:])
		if err != nil {
			return n, err
		}
		if n += k; k == 0 {
			pause(s.out.room, nil, next)
			continue
		}
		s.sent()
	}
	return n, nil
}

// sent wakes readers that wait for bytes.
func (s *memoryStream) sent() {
	s.conn.noteSent(s.out.newest())
	signal(s.out.wake)
	if s.opener && !s.other.taken.Load() {
		signal(s.other.conn.wake)
	}
}

// put sends some of b. If the window is full, it sends nothing and returns when to give up.
func (p *pipe) put(b []byte) (n int, next time.Time, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	by := p.mu.writeBy
	switch {
	case p.mu.closed:
		return 0, next, network.ErrReset
	case !by.IsZero() && !now.Before(by):
		return 0, next, os.ErrDeadlineExceeded
	case p.mu.shut:
		return len(b), next, nil
	}
	if p.mu.queued >= maxUnread {
		return 0, by, nil
	}
	n = min(len(b), maxParcel)
	p.send(now, bytes.Clone(b[:n]))
	return n, next, nil
}

// send puts a parcel on its way. mu is held.
func (p *pipe) send(now time.Time, b []byte) {
	at := p.from.link.send(now, len(b)).Add(p.from.memory.delay(p.from.index, p.to.index))
	p.mu.last = later(at, p.mu.last)
	p.mu.queued += len(b)
	p.mu.queue = append(p.mu.queue, parcel{at: p.mu.last, lost: p.cut(), b: b})
}

// newest returns when the bytes that were sent last come.
func (p *pipe) newest() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mu.last
}

// first returns when the first bytes arrive or have arrived.
func (p *pipe) first() (time.Time, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.mu.queue) == 0 {
		return time.Time{}, false
	}
	p.retry(time.Now())
	return p.mu.queue[0].at, true
}

// CloseWrite implements network.MuxedStream. Where the write deadline has passed it fails, as on a
// bulk connection, which has to send the end.
func (s *memoryStream) CloseWrite() error {
	if s.out.late() {
		return os.ErrDeadlineExceeded
	}
	s.closeWrite()
	return nil
}

// late says whether the writer's deadline has passed, and it has not ended this direction.
func (p *pipe) late() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.mu.closed && !p.mu.writeBy.IsZero() && !time.Now().Before(p.mu.writeBy)
}

func (s *memoryStream) closeWrite() {
	s.out.mu.Lock()
	if !s.out.mu.closed {
		s.out.mu.closed = true
		s.out.send(time.Now(), nil)
	}
	s.out.mu.Unlock()
	signal(s.out.room)
	s.sent()
}

// CloseRead implements network.MuxedStream.
func (s *memoryStream) CloseRead() error {
	s.in.mu.Lock()
	s.in.mu.shut = true
	s.in.mu.queue, s.in.mu.queued = nil, 0
	s.in.mu.Unlock()
	signal(s.in.wake)
	signal(s.in.room)
	return nil
}

// Close implements network.MuxedStream.
func (s *memoryStream) Close() error {
	s.closeWrite()
	_ = s.CloseRead()
	s.conn.forget(s)
	return nil
}

// Reset implements network.MuxedStream. The other end learns of it if the link holds, after what
// was sent before has come.
func (s *memoryStream) Reset() error {
	if !s.end() {
		return nil
	}
	s.conn.forget(s)
	from, to, m := s.conn.host.index, s.other.conn.host.index, s.conn.host.memory
	time.AfterFunc(s.conn.behind(s.out.newest()), func() {
		if !m.net.lost(from, to) {
			s.other.end()
			s.other.conn.forget(s.other)
		}
	})
	return nil
}

// ResetWithError implements network.MuxedStream.
func (s *memoryStream) ResetWithError(network.StreamErrorCode) error { return s.Reset() }

// end breaks this end off. It returns whether it was open.
func (s *memoryStream) end() (open bool) {
	s.in.mu.Lock()
	open = !s.in.mu.shut
	s.in.mu.shut, s.in.mu.queue, s.in.mu.queued = true, nil, 0
	s.in.mu.Unlock()
	s.out.mu.Lock()
	open = open || !s.out.mu.closed
	s.out.mu.closed = true
	s.out.mu.Unlock()
	for _, c := range []chan struct{}{s.in.wake, s.in.room, s.out.wake, s.out.room} {
		signal(c)
	}
	return open
}

// SetDeadline implements network.MuxedStream.
func (s *memoryStream) SetDeadline(t time.Time) error {
	_ = s.SetReadDeadline(t)
	return s.SetWriteDeadline(t)
}

// SetReadDeadline implements network.MuxedStream.
func (s *memoryStream) SetReadDeadline(t time.Time) error {
	s.in.mu.Lock()
	s.in.mu.readBy = t
	s.in.mu.Unlock()
	signal(s.in.wake)
	return nil
}

// SetWriteDeadline implements network.MuxedStream.
func (s *memoryStream) SetWriteDeadline(t time.Time) error {
	s.out.mu.Lock()
	s.out.mu.writeBy = t
	s.out.mu.Unlock()
	signal(s.out.room)
	return nil
}
