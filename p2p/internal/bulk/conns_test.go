package bulk

import (
	"bytes"
	"io"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
)

func TestBulkStreams(t *testing.T) {
	a, b := tcpPair(t)
	b.Handle(exchange, echo)
	for _, size := range []int{0, 1, 1000, 1 << 20} {
		s := openBulk(t, a, b, exchange)
		if _, ok := s.(*Stream); !ok {
			t.Fatalf("a stream of type %T", s)
		}
		data := bytes.Repeat([]byte{1, 2, 3, 4, 5}, size)
		go func() {
			_, _ = s.Write(data)
			_ = s.CloseWrite()
		}()
		got, err := io.ReadAll(s)
		if err != nil || !bytes.Equal(got, data) {
			t.Errorf("%d bytes came back of %d: %v", len(got), len(data), err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if n := idle(t, a, b.id()); n != 1 {
			t.Errorf("%d connections", n)
		}
	}
	if conns := a.host.Network().Conns(); len(conns) != 1 {
		t.Errorf("the swarm has %v", conns)
	}
	if sent, received := a.count.sent.Load(), a.count.received.Load(); sent != received || sent < 5<<20 {
		t.Errorf("counted %d sent and %d received", sent, received)
	}
}

// idle waits until all connections dialled to a peer are idle, and says how many.
func idle(t testing.TB, n *node, to peer.ID) int {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
		n.mu.Lock()
		p := n.mu.peers[to]
		if p != nil && len(p.conns) > 0 && len(p.idle) == len(p.conns) {
			defer n.mu.Unlock()
			return len(p.idle)
		}
		n.mu.Unlock()
	}
	t.Fatal("connections do not become idle")
	return 0
}
