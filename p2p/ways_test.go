package p2p

import (
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
)

// TestWays sees what a connection is made of for each transport.
func TestWays(t *testing.T) {
	for _, c := range []struct {
		listen, want string
	}{
		{"/ip4/127.0.0.1/tcp/0", "tcp /tls/1.0.0"},
		{"/ip4/127.0.0.1/udp/0/quic-v1", "quic-v1 "},
	} {
		cfg := LAN()
		cfg.Listen = []string{c.listen}
		a, b := loopback(t, cfg), loopback(t, cfg)
		b.Handle(protocolEcho, echo)
		a.Host().Peerstore().AddAddrs(peer.ID(b.ID()), b.Host().Addrs(), time.Hour)
		if got, err := roundTrip(bounded(t), a, b.ID(), protocolEcho, []byte("hello")); err != nil ||
			string(got) != "hello" {
			t.Fatalf("%+v: %q, %v", c, got, err)
		}
		s := a.Host().Network().ConnsToPeer(peer.ID(b.ID()))[0].ConnState()
		if got := s.Transport + " " + string(s.Security); got != c.want {
			t.Errorf("%+v: connection over %q", c, got)
		}
		if own := a.Addrs(); len(own) != 1 {
			t.Errorf("%+v: addresses %v, want one", c, own)
		}
	}
}

func TestTrafficByPurpose(t *testing.T) {
	a, b := loopback(t, LAN()), loopback(t, LAN())
	a.Host().Peerstore().AddAddrs(peer.ID(b.ID()), b.Host().Addrs(), time.Hour)
	bytesOf := map[string]func(Traffic) Bytes{
		ProtocolLedger:   func(t Traffic) Bytes { return t.Control },
		protocolEcho:     func(t Traffic) Bytes { return t.Gossip },
		ProtocolExchange: func(t Traffic) Bytes { return t.Exchange },
		ProtocolState:    func(t Traffic) Bytes { return t.State },
	}
	for proto, of := range bytesOf {
		b.Handle(proto, echo)
		before := of(a.Traffic())
		if _, err := roundTrip(bounded(t), a, b.ID(), proto, make([]byte, 100_000)); err != nil {
			t.Fatal(err)
		}
		after := of(a.Traffic())
		for _, n := range []uint64{after.Sent - before.Sent, after.Received - before.Received} {
			if n < 100_000 || n > 110_000 {
				t.Errorf("%s: %d bytes counted, want 100000 and a little", proto, n)
			}
		}
	}
}
