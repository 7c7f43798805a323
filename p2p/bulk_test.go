package p2p

import (
	"bytes"
	"io"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/wire"
)

// tcpPair is two Networks that know of each other, listening on TCP.
func tcpPair(t testing.TB, change func(*Config)) (a, b *Network) {
	t.Helper()
	cfg := LAN()
	cfg.Listen = []string{"/ip4/127.0.0.1/tcp/0"}
	if change != nil {
		change(&cfg)
	}
	a, b = loopback(t, cfg), loopback(t, cfg)
	acquaint(a, b)
	return a, b
}

func acquaint(a, b *Network) {
	a.Host().Peerstore().AddAddrs(peer.ID(b.ID()), b.Host().Addrs(), time.Hour)
	b.Host().Peerstore().AddAddrs(peer.ID(a.ID()), a.Host().Addrs(), time.Hour)
}

func openBulk(t testing.TB, a, b *Network, proto string) wire.Stream {
	t.Helper()
	s, err := a.OpenBulk(bounded(t), b.ID(), proto)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestBulkStreams(t *testing.T) {
	a, b := tcpPair(t, nil)
	b.Handle(ProtocolExchange, echo)
	for _, size := range []int{0, 1, 1000, 1 << 20} {
		s := openBulk(t, a, b, ProtocolExchange)
		if _, ok := s.(*bulkStream); !ok {
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
		idle(t, a, b.ID())
	}
	if got := a.Traffic().Exchange; got.Sent != got.Received || got.Sent < 5<<20 {
		t.Errorf("counted %+v", got)
	}
}

// idle waits until all connections dialled to a peer are idle, and says how many.
func idle(t testing.TB, n *Network, to slot.PeerID) int {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
		n.bulk.mu.Lock()
		p := n.bulk.mu.peers[peer.ID(to)]
		if p != nil && len(p.conns) > 0 && len(p.idle) == len(p.conns) {
			defer n.bulk.mu.Unlock()
			return len(p.idle)
		}
		n.bulk.mu.Unlock()
	}
	t.Fatal("connections do not become idle")
	return 0
}
