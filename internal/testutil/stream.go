package testutil

import (
	"bytes"
	"cmp"
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
	size  int
	moved *sync.Cond // its lock guards what follows

	buf               bytes.Buffer
	eof               bool
	err               error
	readEnd, writeEnd time.Time
}

func newDirection(size int) *direction {
	return &direction{size: size, moved: sync.NewCond(&sync.Mutex{})}
}

func expired(end time.Time) bool { return !end.IsZero() && !time.Now().Before(end) }

func (d *direction) Read(b []byte) (int, error) {
	d.moved.L.Lock()
	defer d.moved.L.Unlock()
	for {
		switch {
		case d.err != nil:
			return 0, d.err
		case d.buf.Len() > 0:
			d.moved.Broadcast()
			return d.buf.Read(b)
		case d.eof:
			return 0, io.EOF
		case expired(d.readEnd):
			return 0, os.ErrDeadlineExceeded
		}
		d.moved.Wait()
	}
}

func (d *direction) Write(b []byte) (done int, err error) {
	d.moved.L.Lock()
	defer d.moved.L.Unlock()
	for done < len(b) {
		room := d.size - d.buf.Len()
		switch {
		case d.err != nil:
			return done, d.err
		case d.eof:
			return done, io.ErrClosedPipe
		case room > 0:
			n, _ := d.buf.Write(b[done:min(len(b), done+room)]) // it has no errors
			done += n
			d.moved.Broadcast()
		case expired(d.writeEnd):
			return done, os.ErrDeadlineExceeded
		default:
			d.moved.Wait()
		}
	}
	return done, nil
}

// late says whether the writer's deadline has passed, and it has not ended this direction.
func (d *direction) late() bool {
	d.moved.L.Lock()
	defer d.moved.L.Unlock()
	return !d.eof && expired(d.writeEnd)
}

// end ends what is written, or with an error both ends.
func (d *direction) end(err error) {
	d.moved.L.Lock()
	defer d.moved.L.Unlock()
	d.eof, d.err = true, cmp.Or(d.err, err)
	d.moved.Broadcast()
}

// deadline sets one, and wakes those who wait once it has passed: at once if there is none.
func (d *direction) deadline(end *time.Time, t time.Time) error {
	d.moved.L.Lock()
	defer d.moved.L.Unlock()
	*end = t
	time.AfterFunc(time.Until(t), d.moved.Broadcast)
	return nil
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
func (s *Stream) SetReadDeadline(t time.Time) error { return s.in.deadline(&s.in.readEnd, t) }

// SetWriteDeadline implements wire.Stream.
func (s *Stream) SetWriteDeadline(t time.Time) error { return s.out.deadline(&s.out.writeEnd, t) }

// SetDeadline implements wire.Stream.
func (s *Stream) SetDeadline(t time.Time) error {
	return errors.Join(s.SetReadDeadline(t), s.SetWriteDeadline(t))
}
