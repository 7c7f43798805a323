package bulk

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// countingConn notes the sizes of writes and the room for reads.
type countingConn struct {
	net.Conn
	writes []int
	rooms  []int
}

func (c *countingConn) Write(b []byte) (int, error) {
	c.writes = append(c.writes, len(b))
	return c.Conn.Write(b)
}

func (c *countingConn) Read(b []byte) (int, error) {
	c.rooms = append(c.rooms, len(b))
	return c.Conn.Read(b)
}

// TestRecordsLeaveTogether: between gather and flush nothing is written, then all in one write; at
// other times everything at once.
func TestRecordsLeaveTogether(t *testing.T) {
	x, y := net.Pipe()
	inner := &countingConn{Conn: x}
	c := NewRecordConn(inner)
	var want []byte
	got := make(chan []byte)
	go func() {
		b, _ := io.ReadAll(y)
		got <- b
	}()
	put := func(n int) {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(rand.Uint32())
		}
		want = append(want, b...)
		if _, err := c.Write(b); err != nil {
			t.Fatal(err)
		}
	}
	put(5)
	c.Gather()
	const few = 7 // records, which the buffer holds
	for range few {
		put(16 << 10)
	}
	if len(inner.writes) != 1 {
		t.Errorf("writes of %v bytes before flush", inner.writes)
	}
	if _, err := c.Flush(); err != nil {
		t.Fatal(err)
	}
	put(7)
	c.Gather()
	for range 40 { // more than the buffer holds
		put(16 << 10)
	}
	if _, err := c.Flush(); err != nil {
		t.Fatal(err)
	}
	if len(inner.writes) != 8 || inner.writes[0] != 5 || inner.writes[1] != few*16<<10 || inner.writes[2] != 7 ||
		inner.writes[3] != RecordsAtOnce {
		t.Errorf("writes of %v bytes", inner.writes)
	}
	_ = c.Close()
	if !bytes.Equal(<-got, want) {
		t.Error("other bytes arrived")
	}
	if c.out.buf != nil {
		t.Error("a buffer is held with nothing in it")
	}
}

// TestRecordsFlushGoesOn after a timeout where it stopped, with room for as much as has left.
func TestRecordsFlushGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x, y := net.Pipe()
		c := NewRecordConn(x)
		want := make([]byte, RecordsBuffer)
		for i := range want {
			want[i] = byte(i >> 8)
		}
		c.Gather()
		if _, err := c.Write(want); err != nil {
			t.Fatal(err)
		}
		got := make([]byte, 100_000)
		go func() { _, _ = io.ReadFull(y, got) }()
		_ = c.SetWriteDeadline(time.Now().Add(time.Second))
		if _, err := c.Flush(); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("flush: %v", err)
		}
		if c.Free() != len(got) {
			t.Errorf("room for %d bytes, want %d", c.Free(), len(got))
		}
		more := []byte("more")
		c.Gather()
		if _, err := c.Write(more); err != nil {
			t.Fatal(err)
		}
		rest := make(chan []byte)
		go func() {
			b, _ := io.ReadAll(y)
			rest <- b
		}()
		_ = c.SetWriteDeadline(time.Time{})
		if err := flushAndClose(c); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(append(got, <-rest...), append(want, more...)) {
			t.Error("other bytes arrived")
		}
	})
}

// TestRecordsArriveTogether: reads become large where much comes, and small again where little
// does; no byte is lost over that.
func TestRecordsArriveTogether(t *testing.T) {
	x, y := net.Pipe()
	inner := &countingConn{Conn: y}
	c := NewRecordConn(inner)
	var want []byte
	for range 3 {
		want = append(want, bytes.Repeat([]byte("large"), 200_000)...)
		want = append(want, bytes.Repeat([]byte("s"), 2*recordsCalm)...)
	}
	go func() {
		for b := want; len(b) > 0; {
			n := len(b)
			if b[0] == 's' {
				n = 1
			} else if at := bytes.IndexByte(b, 's'); at >= 0 {
				n = at
			}
			_, _ = x.Write(b[:n])
			b = b[n:]
		}
		_ = x.Close()
	}()
	got, err := io.ReadAll(io.MultiReader(c))
	if err != nil || !bytes.Equal(got, want) {
		t.Fatalf("%d bytes arrived of %d, or others: %v", len(got), len(want), err)
	}
	large, back := 0, 0
	for i, r := range inner.rooms {
		if r == RecordsAtOnce {
			large++
		}
		if i > 0 && r == RecordsSmall && inner.rooms[i-1] == RecordsAtOnce {
			back++
		}
	}
	if large < 12 || back != 3 || c.in.large != nil {
		t.Errorf("%d large reads, %d times back to small ones, large buffer held %v", large, back, c.in.large != nil)
	}
}

// TestRecordsThatAreHeld wait for flush, whoever writes them, and what the buffer cannot hold is
// refused: nobody blocks.
func TestRecordsThatAreHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x, y := net.Pipe()
		c := NewRecordConn(x)
		c.Hold()
		began, kept := time.Now(), 0
		for err := error(nil); err == nil; {
			var n int
			_ = c.SetWriteDeadline(time.Now().Add(time.Minute)) // for who would block
			n, err = c.Write(make([]byte, 27))
			kept += n
			if err != nil && !errors.Is(err, errUnasked) {
				t.Error(err)
			}
		}
		if kept == 0 || kept > RecordsBuffer || time.Since(began) > 0 {
			t.Errorf("%d bytes were kept in %s", kept, time.Since(began))
		}
		got := make(chan int64)
		go func() {
			n, _ := io.Copy(io.Discard, y)
			got <- n
		}()
		if err := flushAndClose(c); err != nil {
			t.Error(err)
		}
		if n := <-got; n != int64(kept) {
			t.Errorf("%d bytes arrived of %d", n, kept)
		}
	})
}

// TestRecordsOfStrangersAreSmall: no large buffer in a handshake, whatever comes; after it they
// grow as ever.
func TestRecordsOfStrangersAreSmall(t *testing.T) {
	x, y := net.Pipe()
	inner := &countingConn{Conn: y}
	c := NewRecordConn(inner)
	c.Restrain(5 * RecordsSmall)
	go func() {
		_, _ = x.Write(make([]byte, 100*RecordsSmall))
		_ = x.Close()
	}()
	if n, err := io.CopyN(io.Discard, c, 5*RecordsSmall); err != nil {
		t.Fatalf("%d bytes: %v", n, err)
	}
	if slices.Max(inner.rooms) > RecordsSmall {
		t.Errorf("reads of %v", inner.rooms)
	}
	if _, err := c.Read(make([]byte, 1)); !errors.Is(err, errTalkative) {
		t.Errorf("reading on: %v", err)
	}
	c.Release()
	if n, err := io.Copy(io.Discard, c); n != 95*RecordsSmall || err != nil ||
		slices.Max(inner.rooms) != RecordsAtOnce {
		t.Errorf("after the handshake %d bytes came in reads of %v: %v", n, inner.rooms, err)
	}
}

func flushAndClose(c *RecordConn) error {
	_, err := c.Flush()
	return errors.Join(err, c.Close())
}
