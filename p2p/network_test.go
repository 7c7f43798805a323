package p2p

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"syscall"
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
)

// loopback makes a Network with real sockets.
func loopback(t *testing.T, cfg Config) *Network {
	t.Helper()
	if len(cfg.Listen) == 0 {
		cfg.Listen = []string{"/ip4/127.0.0.1/tcp/0", "/ip4/127.0.0.1/udp/0/quic-v1"}
	}
	n, err := New(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = n.Close() })
	return n
}

func bounded(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func echo(_ slot.PeerID, s wire.Stream) { _, _ = io.Copy(s, s) }

// roundTrip sends data to a peer that echoes.
func roundTrip(ctx context.Context, n *Network, to slot.PeerID, proto string, data []byte) ([]byte, error) {
	s, err := n.Open(ctx, to, proto)
	if err != nil {
		return nil, err
	}
	defer s.Close() //nolint:errcheck // everything wanted has been read
	go func() {
		_, _ = s.Write(data)
		_ = s.CloseWrite()
	}()
	return io.ReadAll(s)
}

func TestRealHosts(t *testing.T) {
	boot := loopback(t, LAN())
	cfg := LAN()
	cfg.Bootstrap = boot.Addrs()
	a, b := loopback(t, cfg), loopback(t, cfg)
	a.Advertise(t.Context(), "run")
	b.Advertise(t.Context(), "run")
	if got := collect(t, a.Discover(t.Context(), "run"), 1, 30*time.Second); got[0] != b.ID() {
		t.Fatalf("found %v, want %v", got, b.ID())
	}

	conn := a.Host().Network().ConnsToPeer(peer.ID(b.ID()))[0].ConnState()
	if conn.Transport != "tcp" || conn.Security != "/tls/1.0.0" || conn.StreamMultiplexer != "/yamux/1.0.0" {
		t.Errorf("connection over %v, want TCP, TLS, yamux", conn)
	}
	b.Handle(ProtocolBlob, echo)
	data := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
	before, _ := a.Traffic()
	got, err := roundTrip(bounded(t), a, b.ID(), ProtocolBlob, data)
	if err != nil || !bytes.Equal(got, data) {
		t.Errorf("%d bytes came back of %d: %v", len(got), len(data), err)
	}
	if sent, received := a.Traffic(); sent < before+uint64(len(data)) || received < uint64(len(data)) {
		t.Errorf("counted %d bytes sent and %d received of %d each way", sent-before, received, len(data))
	}
	sig, err := a.Sign(data)
	if err != nil || !Verify(a.ID(), data, sig) || Verify(b.ID(), data, sig) {
		t.Errorf("signature: %v", err)
	}
}

func TestQUICWhereTCPIsMissing(t *testing.T) {
	a := loopback(t, LAN())
	b := loopback(t, Config{Listen: []string{"/ip4/127.0.0.1/udp/0/quic-v1"}})
	b.Handle(ProtocolBlob, echo)
	a.Host().Peerstore().AddAddrs(peer.ID(b.ID()), b.Host().Addrs(), time.Hour)
	if got, err := roundTrip(bounded(t), a, b.ID(), ProtocolBlob, []byte("hello")); err != nil || string(got) != "hello" {
		t.Errorf("%q, %v", got, err)
	}
}

// TestSimultaneousDials has pairs of hosts dial each other at the same moment.
func TestSimultaneousDials(t *testing.T) {
	const pairs = 8
	cfg := Config{Listen: []string{"/ip4/127.0.0.1/tcp/0"}}
	var wg sync.WaitGroup
	ctx := bounded(t)
	start := make(chan struct{})
	for range pairs {
		a, b := loopback(t, cfg), loopback(t, cfg)
		for _, d := range [][2]*Network{{a, b}, {b, a}} {
			d[1].Handle(ProtocolBlob, echo)
			d[0].Host().Peerstore().AddAddrs(peer.ID(d[1].ID()), d[1].Host().Addrs(), time.Hour)
			wg.Go(func() {
				<-start
				if got, err := roundTrip(ctx, d[0], d[1].ID(), ProtocolBlob, []byte("x")); err != nil || string(got) != "x" {
					t.Errorf("%q, %v", got, err)
				}
			})
		}
	}
	close(start)
	wg.Wait()
}

func TestPortInUse(t *testing.T) {
	first := loopback(t, LAN())
	for _, addr := range first.Host().Network().ListenAddresses() {
		_, err := New(t.Context(), Config{Listen: []string{"/ip4/127.0.0.1/tcp/0", addr.String()}})
		if !errors.Is(err, syscall.EADDRINUSE) || !strings.Contains(err.Error(), addr.String()) {
			t.Errorf("error %v; it should name %s", err, addr)
		}
	}
}

func TestDefaultAddresses(t *testing.T) {
	n, err := New(t.Context(), Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close() //nolint:errcheck // checked elsewhere
	tcp := false
	for _, a := range n.Addrs() {
		if !strings.HasSuffix(a, "/p2p/"+n.ID().String()) {
			t.Errorf("address %s lacks the peer ID", a)
		}
		tcp = tcp || strings.Contains(a, "/tcp/")
	}
	if !tcp {
		t.Errorf("no TCP address among %v", n.Addrs())
	}
}

func TestConfigNamesEveryFault(t *testing.T) {
	_, err := New(t.Context(), Config{
		Listen: []string{"localhost:4001"}, Bootstrap: []string{"/ip4/1.2.3.4/tcp/1"},
		AdvertiseEvery: time.Hour, FindEvery: -1, MaxStreamsPerPeer: -1,
	})
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{"listen address", "bootstrap address", "announcing", "searching", "streams"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is missing in: %v", want, err)
		}
	}
}

func TestCloseEndsEverything(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a, b := pair(t)
		inHandler, ended := make(chan struct{}), false
		b.Handle(ProtocolBlob, func(_ slot.PeerID, s wire.Stream) {
			close(inHandler)
			_, _ = s.Read(make([]byte, 1))
			ended = true
		})
		s, err := a.Open(t.Context(), b.ID(), ProtocolBlob)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Write(nil); err != nil { // sends the lazy negotiation
			t.Fatal(err)
		}
		<-inHandler
		found := b.Discover(t.Context(), "run")
		if err := b.Close(); err != nil {
			t.Error(err)
		}
		if !ended {
			t.Error("Close did not wait for the handler")
		}
		if _, open := <-found; open {
			t.Error("the discovery goes on")
		}
		if _, err := s.Read(make([]byte, 1)); err == nil {
			t.Error("the stream lives on")
		}
		if err := b.Close(); err != nil {
			t.Errorf("closing twice: %v", err)
		}
		if _, err := b.Open(t.Context(), a.ID(), ProtocolBlob); !errors.Is(err, net.ErrClosed) {
			t.Errorf("Open after Close: %v", err)
		}
		if _, err := b.Sign(nil); !errors.Is(err, net.ErrClosed) {
			t.Errorf("Sign after Close: %v", err)
		}
		if _, open := <-b.Discover(t.Context(), "run"); open {
			t.Error("Discover after Close finds peers")
		}
	})
}

func TestStreamsOfOnePeerAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := sim.New(t, 2, time.Millisecond)
		a, b := simulated(t, s, 0, LAN()), simulated(t, s, 1, Config{MaxStreamsPerPeer: 3})
		s.Connect(0, 1)
		b.Handle(ProtocolBlob, func(_ slot.PeerID, s wire.Stream) { _, _ = s.Read(make([]byte, 1)) })
		var open []wire.Stream
		refused := 0
		for range 5 {
			s, err := a.Open(t.Context(), b.ID(), ProtocolBlob)
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
			t.Errorf("%d streams of 5 were refused, want 2", refused)
		}
		for _, s := range open {
			_ = s.Reset()
		}
		time.Sleep(time.Second)
		if _, err := roundTrip(t.Context(), a, b.ID(), ProtocolBlob, []byte("x")); err != nil {
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
		b.Handle(ProtocolBlob, echo)
		time.Sleep(10 * time.Second)
		for _, c := range a.Host().Network().ConnsToPeer(peer.ID(b.ID())) {
			_ = c.Close()
		}
		a.Host().Peerstore().ClearAddrs(peer.ID(b.ID()))
		if got, err := roundTrip(t.Context(), a, b.ID(), ProtocolBlob, []byte("x")); err != nil || string(got) != "x" {
			t.Errorf("%q, %v", got, err)
		}
		if _, err := a.Open(t.Context(), a.ID(), ProtocolBlob); err == nil {
			t.Error("a stream to itself")
		}
	})
}

func TestOnConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := sim.New(t, 2, time.Millisecond)
		a := simulated(t, s, 0, LAN())
		var got []bool
		var mu sync.Mutex
		a.OnConnection(func(p slot.PeerID, connected bool) {
			mu.Lock()
			defer mu.Unlock()
			if peer.ID(p) != s.Hosts[1].ID() {
				t.Errorf("news of %s", p)
			}
			got = append(got, connected)
		})
		s.Connect(0, 1)
		time.Sleep(time.Second)
		s.Close(1)
		time.Sleep(time.Second)
		mu.Lock()
		defer mu.Unlock()
		if len(got) != 2 || !got[0] || got[1] {
			t.Errorf("reported %v, want true then false", got)
		}
	})
}

func TestProtectSetsTheExactSet(t *testing.T) {
	a, b, c := loopback(t, LAN()), slot.PeerID("b"), slot.PeerID("c")
	isProtected := func(p slot.PeerID) bool { return a.Host().ConnManager().IsProtected(peer.ID(p), protectTag) }
	a.Protect([]slot.PeerID{b, a.ID()})
	a.Protect([]slot.PeerID{c})
	if isProtected(b) || !isProtected(c) || isProtected(a.ID()) {
		t.Errorf("b %v, c %v, itself %v; want only c protected", isProtected(b), isProtected(c), isProtected(a.ID()))
	}
}

// TestManyPeersBehindOneAddress takes connections as a host sees them come from behind one router.
func TestManyPeersBehindOneAddress(t *testing.T) {
	m, err := newResourceManager()
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close() //nolint:errcheck // nothing can be done about it
	from := multiaddr.StringCast("/ip4/192.0.2.1/tcp/4001")
	for i := range 200 {
		conn, err := m.OpenConnection(network.DirInbound, true, from)
		if err != nil {
			t.Fatalf("connection %d: %v", i, err)
		}
		id, err := peerOf(t)
		if err != nil {
			t.Fatal(err)
		}
		if err := conn.SetPeer(id); err != nil {
			t.Fatalf("connection %d: %v", i, err)
		}
		for range 40 {
			s, err := m.OpenStream(id, network.DirInbound)
			if err == nil {
				err = s.SetProtocol(protocol.ID(ProtocolExchange))
			}
			if err != nil {
				t.Fatalf("stream of connection %d: %v", i, err)
			}
		}
	}
}

func peerOf(t *testing.T) (peer.ID, error) {
	t.Helper()
	key, err := newKey()
	if err != nil {
		return "", err
	}
	return peer.IDFromPrivateKey(key)
}
