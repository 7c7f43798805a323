package bulk

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/wire"
)

// slowConn takes so many bytes a second, and for Writes keeps to a deadline of its own.
type slowConn struct {
	net.Conn
	mu struct {
		sync.Mutex
		rate  int // 0: nothing
		until time.Time
	}
}

func (c *slowConn) set(rate int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.rate = rate
}

func (c *slowConn) SetWriteDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.until = t
	return nil
}

func (c *slowConn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetWriteDeadline(t), c.SetReadDeadline(t))
}

func (c *slowConn) Write(b []byte) (n int, err error) {
	const tick = 100 * time.Millisecond
	for n < len(b) {
		c.mu.Lock()
		rate, until := c.mu.rate, c.mu.until
		c.mu.Unlock()
		if !until.IsZero() && !time.Now().Before(until) {
			return n, os.ErrDeadlineExceeded
		}
		if rate > 0 {
			k, err := c.Conn.Write(b[n:min(len(b), n+rate/10)])
			if n += k; err != nil {
				return n, err
			}
		}
		time.Sleep(tick)
	}
	return n, nil
}

// slowStream is a stream over a link that is fast until set. What arrives at the other end, and how
// that ends, comes out of the channels.
func slowStream(t *testing.T) (s *Stream, link *slowConn, got chan []byte, ended chan error) {
	t.Helper()
	b, c, _ := piped(t, func(c net.Conn) net.Conn {
		link = &slowConn{Conn: c}
		link.set(1 << 30)
		return link
	})
	got, ended = make(chan []byte, 1), make(chan error, 1)
	b[1].Handle(exchange, func(_ slot.PeerID, s wire.Stream) {
		data, err := io.ReadAll(s)
		got <- data
		ended <- err
	})
	noError(t, c.send(kindOpen, []byte(exchange), time.Time{}))
	return b[0].streamOn(c, exchange), link, got, ended
}

// patient writes as the all-reduce does: in chunks, each with some time, and on while that helps.
// It says how often the time was up.
func patient(s wire.Stream, data []byte, patience time.Duration) (timeouts int, err error) {
	for chunk := 64 << 10; len(data) > 0; {
		if err := s.SetWriteDeadline(time.Now().Add(patience)); err != nil {
			return timeouts, err
		}
		n, err := s.Write(data[:min(chunk, len(data))])
		if data = data[n:]; err == nil {
			continue
		}
		timeouts, chunk = timeouts+1, max(16<<10, chunk/2)
		if n == 0 || !wire.TimedOut(err) {
			return timeouts, err
		}
	}
	return timeouts, nil
}

// TestBulkWritesToTheDead: whoever goes on writing while that helps learns of it with the second
// write that nothing helps.
func TestBulkWritesToTheDead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, link, got, _ := slowStream(t)
		if _, err := patient(s, make([]byte, 1<<20), time.Minute); err != nil {
			t.Fatal(err)
		}
		link.set(0)
		if timeouts, err := patient(s, make([]byte, 1<<20), 6*time.Second); timeouts > 2 ||
			!errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("after %d timeouts: %v; want to give up after 2", timeouts, err)
		}
		_ = s.Reset()
		<-got
	})
}

// TestBulkWritesOverASlowLink: however slow it is, each write says that it helped, and all arrives.
func TestBulkWritesOverASlowLink(t *testing.T) {
	for _, rate := range []int{400, 3000, 20_000, 60_000} {
		synctest.Test(t, func(t *testing.T) {
			s, link, got, ended := slowStream(t)
			link.set(rate)
			data := make([]byte, 400_000)
			for i := range data {
				data[i] = byte(i >> 9)
			}
			timeouts, err := patient(s, data, 6*time.Second)
			if err != nil || timeouts == 0 && rate < 10_000 {
				t.Errorf("%d bytes/s: after %d timeouts: %v", rate, timeouts, err)
				_ = s.Reset()
				return
			}
			link.set(1 << 30)
			if err := errors.Join(s.SetWriteDeadline(time.Time{}), s.CloseWrite()); err != nil {
				t.Error(err)
			}
			if !bytes.Equal(<-got, data) || <-ended != nil {
				t.Errorf("%d bytes/s: other bytes arrived", rate)
			}
			_ = s.Close()
		})
	}
}

// TestBulkCloseAfterAPart: a Write that took a part, and that no other made up for, is followed by
// no clean end.
func TestBulkCloseAfterAPart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, link, _, ended := slowStream(t)
		link.set(100_000)
		_ = s.SetWriteDeadline(time.Now().Add(time.Second))
		if n, err := s.Write(make([]byte, 1<<20)); n == 0 || n == 1<<20 || !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("%d bytes taken: %v", n, err)
		}
		if err := s.Close(); err == nil {
			t.Error("Close says that all is well")
		}
		if err := <-ended; err == nil {
			t.Error("the other side saw a clean end of what is not all there")
		}
	})
}

// TestBulkCloseWaitsForWhoStillReads: the kernel may hold much that the other side reads slowly.
// Who reads for ever is not waited for.
func TestBulkCloseWaitsForWhoStillReads(t *testing.T) {
	for _, reads := range []time.Duration{0, 50 * time.Second, 2 * time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			b, c, _ := piped(t, nil)
			b[1].Handle(exchange, func(_ slot.PeerID, s wire.Stream) {
				_, _ = io.Copy(io.Discard, s)
				time.Sleep(reads)
			})
			noError(t, c.send(kindOpen, []byte(exchange), time.Time{}))
			s := b[0].streamOn(c, exchange)
			noError(t, s.Close())
			time.Sleep(min(reads, endLinger) + time.Second)
			b[0].mu.Lock()
			p := b[0].mu.peers[c.peer]
			kept := p != nil && len(p.idle) == 1
			b[0].mu.Unlock()
			if want := reads < endLinger; kept != want {
				t.Errorf("after %s: the connection is kept %v, want %v", reads, kept, want)
			}
			time.Sleep(reads)
		})
	}
}

// TestBulkWornOut: a connection that has carried much, in whichever direction, gets no further
// stream, and one that has carried too much fails.
func TestBulkWornOut(t *testing.T) {
	for name, worn := range map[string]func(c *conn){
		"":         func(*conn) {},
		"sent":     func(c *conn) { c.sent.Store(keptForRecords) },
		"received": func(c *conn) { c.came.Store(keptForRecords) },
	} {
		synctest.Test(t, func(t *testing.T) {
			s, _, got, ended := slowStream(t)
			worn(s.c)
			if _, err := s.Write(make([]byte, 100_000)); err != nil {
				t.Error(err)
			}
			if err := s.Close(); err != nil || len(<-got) != 100_000 || <-ended != nil {
				t.Errorf("%s: a stream on a worn connection: %v", name, err)
			}
			time.Sleep(time.Second)
			if kept := s.c.b.known(); kept != 0 && name != "" || kept != 1 && name == "" {
				t.Errorf("%s: %d connections kept", name, kept)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		s, _, _, ended := slowStream(t)
		s.c.sent.Store(maxRecords)
		if n, err := s.Write([]byte("x")); n != 0 || !errors.Is(err, errWornOut) {
			t.Errorf("writing on: %d, %v", n, err)
		}
		if err := s.Close(); err == nil || <-ended == nil {
			t.Errorf("closing: %v", err)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		b, c, _ := piped(t, nil)
		b[1].Handle(exchange, echo)
		noError(t, c.send(kindOpen, []byte(exchange), time.Time{}))
		s := b[0].streamOn(c, exchange)
		if _, err := s.Write(make([]byte, 100_000)); err != nil {
			t.Error(err)
		}
		c.came.Store(maxRecords)
		if _, err := io.ReadAll(s); !errors.Is(err, errWornOut) {
			t.Errorf("reading on: %v", err)
		}
		if _, err := s.Read(make([]byte, 1)); err == nil || errors.Is(err, io.EOF) {
			t.Errorf("reading after that: %v", err)
		}
		_ = s.Reset()
	})
}

// TestBulkRecordsAreCounted as TLS makes them.
func TestBulkRecordsAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _, got, _ := slowStream(t)
		for _, size := range []int{1, recordSize, recordSize + 1, 3 * recordSize} {
			if _, err := s.Write(make([]byte, size)); err != nil {
				t.Fatal(err)
			}
		}
		noError(t, s.Close())
		<-got
		time.Sleep(time.Second)
		const want = 2 /* OPEN */ + (1 + 1) + (1 + 1) + (1 + 2) + (1 + 3) + 1 /* END */
		if n := s.c.sent.Load(); n != want {
			t.Errorf("%d records counted, want %d", n, want)
		}
		if n := s.c.came.Load(); n != 2 { // READY, END
			t.Errorf("%d records counted that came, want 2", n)
		}
	})
}
