package p2p

import (
	"io"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/p2pdiloco/p2pdiloco/internal/sim"
	"github.com/p2pdiloco/p2pdiloco/internal/wire"
)

// simulated makes a Network on simulated host i.
func simulated(t *testing.T, s *sim.Net, i int, cfg Config) *Network {
	t.Helper()
	n, err := New(t.Context(), cfg, WithHost(s.Hosts[i]))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Close(); err != nil {
			t.Errorf("closing network %d: %v", i, err)
		}
	})
	return n
}

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

func readSome(s wire.Stream) error {
	_, err := io.ReadFull(s, make([]byte, 1))
	return err
}

// outbound is how many connections there are that a peer has dialled to another: libp2p's, and
// those for much data.
func (n *Network) outbound(t *testing.T, to *Network) (conns int) {
	t.Helper()
	err := n.env.Host.Network().ResourceManager().ViewPeer(peer.ID(to.ID()), func(s network.PeerScope) error {
		conns = s.Stat().NumConnsOutbound
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return conns
}

func noError(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
