package p2p

import (
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/p2pdiloco/p2pdiloco/internal/sim"
)

// TestBulkIdle: a connection waits for the next stream for a while, and not for ever.
func TestBulkIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := sim.New(t, 2, time.Millisecond)
		var b [2]*bulk
		for i := range b {
			var err error
			if b[i], err = newBulk(simulated(t, s, i, LAN())); err != nil {
				t.Fatal(err)
			}
		}
		to := peer.ID(b[1].n.ID())
		var done atomic.Int32
		x, y := net.Pipe()
		b[1].accept(y, somewhere, &countedScope{done: &done})
		c, err := b[0].handshake(t.Context(), x, to, &countedScope{done: &done})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.expect(bulkReady, time.Now().Add(bulkHandshake)); err != nil {
			t.Fatal(err)
		}
		b[0].mu.Lock()
		b[0].mu.peers[to] = &bulkPeer{conns: map[*bulkConn]struct{}{c: {}}}
		b[0].mu.Unlock()
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

// TestBulkPlaces: peers that are not members cannot take all places for connections.
func TestBulkPlaces(t *testing.T) {
	a, b := tcpPair(t, nil)
	for range maxBulkStrangers {
		a.bulk.mu.taken[&bulkConn{}] = struct{}{}
	}
	defer clear(a.bulk.mu.taken)
	c := &bulkConn{peer: peer.ID(b.ID())}
	if err := a.bulk.admit(c); err == nil {
		t.Error("one stranger too many got in")
	}
	a.mu.Lock()
	a.mu.protected = map[peer.ID]struct{}{c.peer: {}}
	a.mu.Unlock()
	if err := a.bulk.admit(c); err != nil {
		t.Errorf("a member: %v", err)
	}
}
