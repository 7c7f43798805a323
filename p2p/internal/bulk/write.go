package bulk

import (
	"errors"
	"net"

	"github.com/p2pdiloco/p2pdiloco/internal/wire"
)

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
