package p2p

import (
	"errors"
	"fmt"
	"io"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"
	"github.com/multiformats/go-multiaddr"

	"github.com/p2pdiloco/p2pdiloco/internal/sim"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/wire"
	"github.com/p2pdiloco/p2pdiloco/p2p/internal/bulk"
	"github.com/p2pdiloco/p2pdiloco/p2p/internal/limits"
)

func TestStreamsOfOnePeerAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := sim.New(t, 2, time.Millisecond)
		a, b := simulated(t, s, 0, LAN()), simulated(t, s, 1, LAN())
		s.Connect(0, 1)
		b.Handle(protocolEcho, func(_ slot.PeerID, s wire.Stream) { _, _ = s.Read(make([]byte, 1)) })
		var open []wire.Stream
		refused := 0
		for range streamsAtOnce + 2 {
			s, err := a.Open(t.Context(), b.ID(), protocolEcho)
			if err != nil {
				t.Fatal(err)
			}
			open = append(open, s)
			_, _ = s.Write(nil)
			_ = s.SetReadDeadline(time.Now().Add(time.Second))
			if _, err := s.Read(make([]byte, 1)); errors.Is(err, network.ErrReset) {
				refused++
			}
		}
		if refused != 2 {
			t.Errorf("%d streams of %d were refused, want 2", refused, streamsAtOnce+2)
		}
		for _, s := range open {
			_ = s.Reset()
		}
		time.Sleep(time.Second)
		if _, err := roundTrip(t.Context(), a, b.ID(), protocolEcho, []byte("x")); err != nil {
			t.Errorf("after the others ended: %v", err)
		}
	})
}

func TestOpenFindsAddressesInTheDHT(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := sim.New(t, 3, 10*time.Millisecond)
		boot := simulated(t, s, 0, LAN())
		cfg := LAN()
		cfg.Bootstrap = boot.Addrs()[:1]
		a, b := simulated(t, s, 1, cfg), simulated(t, s, 2, cfg)
		b.Handle(protocolEcho, echo)
		time.Sleep(10 * time.Second)
		for _, c := range a.Host().Network().ConnsToPeer(peer.ID(b.ID())) {
			_ = c.Close()
		}
		a.Host().Peerstore().ClearAddrs(peer.ID(b.ID()))
		if got, err := roundTrip(t.Context(), a, b.ID(), protocolEcho, []byte("x")); err != nil || string(got) != "x" {
			t.Errorf("%q, %v", got, err)
		}
		if _, err := a.Open(t.Context(), a.ID(), protocolEcho); err == nil {
			t.Error("a stream to itself")
		}
	})
}

// TestManyBehindOneAddress takes peers as a host sees them come from behind one router: 64 with all
// the bulk connections that they may have, 200 with many streams, 500 with a few connections.
func TestManyBehindOneAddress(t *testing.T) {
	for _, c := range []struct{ peers, conns, streams int }{{64, 1 + bulk.MaxConns, 0}, {200, 1, 40}, {500, 5, 0}} {
		m, err := limits.NewResourceManager(bulk.MaxConns)
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close() //nolint:errcheck // nothing can be done about it
		for k := range c.peers {
			id, err := peerOf(t), error(nil)
			for i := range c.conns {
				from := multiaddr.StringCast(fmt.Sprintf("/ip4/192.0.2.1/tcp/%d", 2000+c.conns*k+i))
				// how many files there may be is the machine's affair
				conn, failed := m.OpenConnection(network.DirInbound, false, from)
				if err = errors.Join(err, failed); err == nil {
					err = conn.SetPeer(id)
				}
			}
			for range c.streams {
				s, failed := m.OpenStream(id, network.DirInbound)
				if err = errors.Join(err, failed); err == nil {
					err = s.SetProtocol(protocol.ID(ProtocolExchange))
				}
			}
			if err != nil {
				t.Fatalf("%+v: peer %d: %v", c, k, err)
			}
		}
	}
}

// TestSimultaneousDials has pairs of hosts dial each other at the same moment. A stream may be lost
// with a connection of its own: who is dialled while it dials gives one of the two up. The next
// stream takes the one that stays.
func TestSimultaneousDials(t *testing.T) {
	const pairs = 4
	cfg := Config{Listen: []string{"/ip4/127.0.0.1/tcp/0"}}
	var wg sync.WaitGroup
	ctx := bounded(t)
	start := make(chan struct{})
	for range pairs {
		a, b := loopback(t, cfg), loopback(t, cfg)
		for _, d := range [][2]*Network{{a, b}, {b, a}} {
			d[1].Handle(protocolEcho, echo)
			d[0].Host().Peerstore().AddAddrs(peer.ID(d[1].ID()), d[1].Host().Addrs(), time.Hour)
			wg.Go(func() {
				<-start
				got, err := roundTrip(ctx, d[0], d[1].ID(), protocolEcho, []byte("x"))
				if err != nil {
					got, err = roundTrip(ctx, d[0], d[1].ID(), protocolEcho, []byte("x"))
				}
				if err != nil || string(got) != "x" {
					t.Errorf("%q, %v", got, err)
				}
			})
		}
	}
	close(start)
	wg.Wait()
}

func TestBulkStreamsPerPeer(t *testing.T) {
	a, b := tcpPair(t, nil)
	b.Handle(ProtocolAudit, echo)
	for range protocols[ProtocolAudit].atOnce {
		s := openBulk(t, a, b, ProtocolAudit)
		if _, err := s.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
		noError(t, readSome(s))
	}
	if err := readSome(openBulk(t, a, b, ProtocolAudit)); err == nil || errors.Is(err, io.EOF) {
		t.Errorf("a stream too many: %v", err)
	}
	if err := readSome(openBulk(t, a, b, ProtocolState)); err == nil || errors.Is(err, io.EOF) {
		t.Errorf("a protocol without a handler: %v", err)
	}
}
