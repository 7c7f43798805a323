package p2p

import (
	"io"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/p2pdiloco/p2pdiloco/internal/sim"
)

// piped is a bulk connection between two simulated peers, over a pipe without a buffer. between puts something in front of the dialer's end.
func piped(t *testing.T, between func(net.Conn) net.Conn) (b [2]*bulk, c *bulkConn, done *atomic.Int32) {
	t.Helper()
	s := sim.New(t, 2, time.Millisecond)
	for i := range b {
		var err error
		if b[i], err = newBulk(simulated(t, s, i, LAN())); err != nil {
			t.Fatal(err)
		}
	}
	s.Connect(0, 1)
	done = new(atomic.Int32)
	to := peer.ID(b[1].n.ID())
	x, y := net.Pipe()
	b[1].accept(y, somewhere, &countedScope{done: done})
	if between != nil {
		x = between(x)
	}
	c, err := b[0].handshake(t.Context(), x, to, &countedScope{done: done})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.expect(bulkReady, time.Now().Add(bulkHandshake)); err != nil {
		t.Fatal(err)
	}
	b[0].mu.Lock()
	b[0].mu.peers[to] = &bulkPeer{conns: map[*bulkConn]struct{}{c: {}}}
	b[0].mu.Unlock()
	return b, c, done
}

// TestBulkIdle: a connection waits for the next stream for a while, and not for ever.
func TestBulkIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, c, done := piped(t, nil)
		to := c.peer
		b[0].park(c)
		time.Sleep(bulkIdle - time.Second)
		if got, err := b[0].get(t.Context(), to); got != c || err != nil {
			t.Fatalf("the idle connection is not used: %v, %v", got, err)
		}
		b[0].park(c)
		time.Sleep(bulkIdle - time.Second)
		if known(b[0]) != 1 || known(b[1]) != 1 {
			t.Error("the connection ended before its time")
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if known(b[0]) != 0 || known(b[1]) != 0 || done.Load() < 2 {
			t.Error("the connection is held for ever")
		}
	})
}

// known is how many connections there are, to others and from others, and how many shake hands.
func known(b *bulk) int {
	all := len(b.connsOf(func(*bulkConn) bool { return true }))
	b.mu.Lock()
	defer b.mu.Unlock()
	return all + len(b.mu.raw)
}

// TestBulkIdleConnectionsHoldNoBuffers after a stream that carried much.
func TestBulkIdleConnectionsHoldNoBuffers(t *testing.T) {
	a, b := tcpPair(t, nil)
	b.Handle(ProtocolExchange, echo)
	s := openBulk(t, a, b, ProtocolExchange)
	go func() {
		_, _ = io.CopyN(s, zeros{}, 8<<20)
		_ = s.CloseWrite()
	}()
	if n, err := io.Copy(io.Discard, s); n != 8<<20 || err != nil {
		t.Fatalf("%d bytes: %v", n, err)
	}
	c := s.(*bulkStream).c
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	idle(t, a, b.ID())
	if got, err := a.bulk.get(t.Context(), peer.ID(b.ID())); got != c || err != nil { // nobody reads it any more
		t.Fatalf("%v, %v", got, err)
	}
	defer c.close()
	if c.records.in.large != nil || c.records.out.buf != nil {
		t.Error("an idle connection has large buffers")
	}
}
