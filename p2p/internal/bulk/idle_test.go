package bulk

import (
	"io"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/sim"
)

// piped is a bulk connection between two simulated peers, over a pipe without a buffer. between
// puts something in front of the dialer's end.
func piped(t *testing.T, between func(net.Conn) net.Conn) (b [2]*node, c *conn, done *atomic.Int32) {
	t.Helper()
	s := sim.New(t, 2, time.Millisecond)
	for i := range b {
		var err error
		if b[i] = simulated(t, s, i); err != nil {
			t.Fatal(err)
		}
	}
	s.Connect(0, 1)
	done = new(atomic.Int32)
	to := b[1].id()
	x, y := net.Pipe()
	b[1].accept(Incoming{Conn: y, From: somewhere, Scope: &countedScope{done: done}})
	if between != nil {
		x = between(x)
	}
	c, err := b[0].handshake(t.Context(), x, to, &countedScope{done: done})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.expect(kindReady, time.Now().Add(handshakeTimeout)); err != nil {
		t.Fatal(err)
	}
	b[0].mu.Lock()
	b[0].mu.peers[to] = &peerConns{conns: map[*conn]struct{}{c: {}}}
	b[0].mu.Unlock()
	return b, c, done
}

// TestBulkIdle: a connection waits for the next stream for a while, and not for ever.
func TestBulkIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, c, done := piped(t, nil)
		to := c.peer
		b[0].park(c)
		time.Sleep(idleDialled - time.Second)
		if got, err := b[0].get(t.Context(), to); got != c || err != nil {
			t.Fatalf("the idle connection is not used: %v, %v", got, err)
		}
		b[0].park(c)
		time.Sleep(idleDialled - time.Second)
		if b[0].known() != 1 || b[1].known() != 1 {
			t.Error("the connection ended before its time")
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if b[0].known() != 0 || b[1].known() != 0 || done.Load() < 2 {
			t.Error("the connection is held for ever")
		}
	})
}

// known is how many connections there are, to others and from others, and how many shake hands.
func (b *Conns) known() int {
	return len(b.connsOf(func(*conn) bool { return true })) + b.shaking.Held()
}

// TestBulkIdleConnectionsHoldNoBuffers after a stream that carried much.
func TestBulkIdleConnectionsHoldNoBuffers(t *testing.T) {
	a, b := tcpPair(t)
	b.Handle(exchange, echo)
	s := openBulk(t, a, b, exchange)
	go func() {
		_, _ = io.CopyN(s, zeros{}, 8<<20)
		_ = s.CloseWrite()
	}()
	if n, err := io.Copy(io.Discard, s); n != 8<<20 || err != nil {
		t.Fatalf("%d bytes: %v", n, err)
	}
	c := s.(*Stream).c
	noError(t, s.Close())
	idle(t, a, b.id())
	// nobody reads it any more
	if got, err := a.get(t.Context(), b.id()); got != c || err != nil {
		t.Fatalf("%v, %v", got, err)
	}
	defer c.close()
	if c.records.in.large != nil || c.records.out.buf != nil {
		t.Error("an idle connection has large buffers")
	}
}
