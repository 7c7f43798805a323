package sim

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/protocol"
)

const proto = protocol.ID("/test/1.0.0")

// inMemory runs f with n hosts that are connected by links of 1 MB/s.
func inMemory(t *testing.T, n int, f func(t *testing.T, s *Net)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := NewMemory(t, 0, 10*time.Millisecond)
		s.Rate = 8_000_000
		for range n {
			s.Add()
		}
		s.ConnectAll()
		f(t, s)
	})
}

// open opens a stream and returns both of its ends; a byte has come through it by then.
func open(t *testing.T, s *Net, from, to int) (near, far network.Stream) {
	t.Helper()
	came := make(chan network.Stream, 1)
	s.Hosts[to].SetStreamHandler(proto, func(in network.Stream) { came <- in })
	near, err := s.Hosts[from].NewStream(t.Context(), s.Hosts[to].ID(), proto)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := near.Write([]byte{1}); err != nil {
		t.Fatal(err)
	}
	far = <-came
	if _, err := io.ReadFull(far, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	return near, far
}

// pass sends n bytes through a stream and says how long that took.
func pass(t *testing.T, near, far network.Stream, n int) time.Duration {
	t.Helper()
	began, sent := time.Now(), bytes.Repeat([]byte{7}, n)
	go func() {
		if _, err := near.Write(sent); err != nil {
			t.Error(err)
		}
	}()
	got := make([]byte, n)
	if _, err := io.ReadFull(far, got); err != nil || !bytes.Equal(got, sent) {
		t.Errorf("%d bytes did not come through: %v", n, err)
	}
	return time.Since(began)
}

func between(t *testing.T, what string, took, least, most time.Duration) {
	t.Helper()
	if took < least || took > most {
		t.Errorf("%s took %v, expected from %v to %v", what, took, least, most)
	}
}

// What a host sends takes its time, however many streams it takes.
func TestRate(t *testing.T) {
	inMemory(t, 3, func(t *testing.T, s *Net) {
		took := make(chan time.Duration, 2)
		var ends [2][2]network.Stream // all are open before the first takes the link
		for i := range ends {
			ends[i][0], ends[i][1] = open(t, s, 0, i+1)
		}
		for _, e := range ends {
			go func() { took <- pass(t, e[0], e[1], 1_000_000) }()
		}
		between(t, "two MB on one link", max(<-took, <-took), 2*time.Second, 2200*time.Millisecond)
	})
}

// A writer does not run ahead of its reader.
func TestWindow(t *testing.T) {
	inMemory(t, 2, func(t *testing.T, s *Net) {
		near, far := open(t, s, 0, 1)
		if err := near.SetWriteDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		n, err := near.Write(make([]byte, 10_000_000))
		if !errors.Is(err, os.ErrDeadlineExceeded) || n < 1_000_000 || n > 2_000_000 {
			t.Errorf("%d bytes written that nobody reads: %v", n, err)
		}
		if _, err := io.ReadFull(far, make([]byte, n)); err != nil {
			t.Errorf("what was written does not come: %v", err)
		}
		if err := far.SetReadDeadline(time.Now().Add(time.Second)); err != nil {
			t.Fatal(err)
		}
		if _, err := far.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("read past the deadline: %v", err)
		}
	})
}

// News of a reset, or of the end of a connection, do not overtake what was written before.
func TestEndsComeLast(t *testing.T) {
	inMemory(t, 2, func(t *testing.T, s *Net) {
		for what, end := range map[string]func(network.Stream) error{
			"a reset":            network.Stream.Reset,
			"a connection's end": func(st network.Stream) error { return st.Conn().Close() },
			"an end after a stream's": func(st network.Stream) error {
				return errors.Join(st.Close(), st.Conn().Close())
			},
		} {
			near, far := open(t, s, 0, 1)
			came := make(chan int)
			go func() {
				b, _ := io.ReadAll(far)
				came <- len(b)
			}()
			if _, err := near.Write(make([]byte, 100_000)); err != nil {
				t.Fatal(err)
			}
			if err := end(near); err != nil {
				t.Fatal(err)
			}
			if n := <-came; n != 100_000 {
				t.Errorf("%s: %d bytes came before it", what, n)
			}
		}
	})
}

// What was written before the end comes; after a reset, or once the link has been cut for long,
// nothing does.
func TestEnds(t *testing.T) {
	inMemory(t, 2, func(t *testing.T, s *Net) {
		near, far := open(t, s, 0, 1)
		if _, err := near.Write(make([]byte, 100_000)); err != nil {
			t.Fatal(err)
		}
		if err := near.Close(); err != nil {
			t.Fatal(err)
		}
		if b, err := io.ReadAll(far); err != nil || len(b) != 100_000 {
			t.Errorf("%d bytes came before the end: %v", len(b), err)
		}

		near, far = open(t, s, 0, 1)
		if err := near.Reset(); err != nil {
			t.Fatal(err)
		}
		if _, err := far.Read(make([]byte, 1)); !errors.Is(err, network.ErrReset) {
			t.Errorf("read from a stream that was reset: %v", err)
		}

		near, far = open(t, s, 0, 1)
		s.Cut(0, 1)
		time.AfterFunc(5*time.Second, func() { s.Heal(0, 1) })
		between(t, "a KB over a link that is cut for 5 s", pass(t, near, far, 1000), 5*time.Second, 7*time.Second)
		s.Isolate(0)
		s.Close(0) // nobody hears of it
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		began := time.Now()
		context.AfterFunc(ctx, func() { _ = far.Reset() })
		_, err := far.Read(make([]byte, 1))
		between(t, "to notice that a peer has vanished", time.Since(began), 20*time.Second, 35*time.Second)
		if err == nil {
			t.Error("read from a peer that has vanished")
		}
	})
}
