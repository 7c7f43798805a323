package p2p

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/wire"
	"github.com/p2pdiloco/p2pdiloco/p2p/internal/peers"
)

// loopback makes a Network with real sockets.
func loopback(t testing.TB, cfg Config) *Network {
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

func bounded(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// protocolEcho is the protocol of tests.
const protocolEcho = "/p2pdiloco/echo/1.0.0"

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

// discover are the peers that n finds of a run.
func discover(t *testing.T, n *Network) <-chan slot.PeerID {
	found, _ := n.Discover(t.Context(), NewPlaces("run"))
	return found
}

func TestRealHosts(t *testing.T) {
	boot := loopback(t, LAN())
	cfg := LAN()
	cfg.Bootstrap = boot.Addrs()
	a, b := loopback(t, cfg), loopback(t, cfg)
	a.Advertise(t.Context(), NewPlaces("run"))
	b.Advertise(t.Context(), NewPlaces("run"))
	select {
	case got := <-discover(t, a):
		if got != b.ID() {
			t.Fatalf("found %v, want %v", got, b.ID())
		}
	case <-bounded(t).Done():
		t.Fatal("nobody was found")
	}

	conn := a.Host().Network().ConnsToPeer(peer.ID(b.ID()))[0].ConnState()
	if conn.Transport != "tcp" || conn.Security != "/tls/1.0.0" || conn.StreamMultiplexer != "/yamux/1.0.0" {
		t.Errorf("connection over %v, want TCP, TLS, yamux", conn)
	}
	b.Handle(protocolEcho, echo)
	data := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
	before, _ := a.Traffic().Total()
	got, err := roundTrip(bounded(t), a, b.ID(), protocolEcho, data)
	if err != nil || !bytes.Equal(got, data) {
		t.Errorf("%d bytes came back of %d: %v", len(got), len(data), err)
	}
	if sent, received := a.Traffic().Total(); sent < before+uint64(len(data)) || received < uint64(len(data)) {
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
	b.Handle(protocolEcho, echo)
	a.Host().Peerstore().AddAddrs(peer.ID(b.ID()), b.Host().Addrs(), time.Hour)
	if got, err := roundTrip(bounded(t), a, b.ID(), protocolEcho, []byte("hello")); err != nil ||
		string(got) != "hello" {
		t.Errorf("%q, %v", got, err)
	}
}

func TestPortInUse(t *testing.T) {
	first := loopback(t, LAN())
	for _, a := range first.Host().Network().ListenAddresses() {
		if peers.IsRelayed(a) {
			continue
		}
		_, err := New(t.Context(), Config{Listen: []string{"/ip4/127.0.0.1/tcp/0", a.String()}})
		if !errors.Is(err, syscall.EADDRINUSE) || !strings.Contains(err.Error(), a.String()) {
			t.Errorf("error %v; it should name %s", err, a)
		}
	}
}

func TestAddresses(t *testing.T) {
	n := loopback(t, Config{})
	if err := listenAny(n.Host(), Config{}, []string{"/ip4/203.0.113.1/tcp/0", "/ip4/127.0.0.1/tcp/0"}); err != nil {
		t.Errorf("one of two addresses can be had: %v", err)
	}
	if err := listenAny(n.Host(), Config{}, []string{"/ip4/203.0.113.1/tcp/0"}); err == nil ||
		!strings.Contains(err.Error(), "203.0.113.1") {
		t.Errorf("an address of another machine: error %v", err)
	}
	if len(n.Addrs()) != 3 {
		t.Errorf("addresses %v, want 3", n.Addrs())
	}
	for _, a := range n.Addrs() {
		if !strings.HasSuffix(a, "/p2p/"+n.ID().String()) {
			t.Errorf("address %s lacks the peer ID", a)
		}
	}
}

func TestConfigNamesEveryFault(t *testing.T) {
	_, err := New(t.Context(), Config{
		Listen: []string{"localhost:4001"}, Bootstrap: []string{"/ip4/1.2.3.4/tcp/1"},
		AdvertiseEvery: time.Hour, FindEvery: -1, Pulse: -1,
	})
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{
		"listen address", "bootstrap address", "announcing", "searching", "pulse",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is missing in: %v", want, err)
		}
	}
}

func TestCloseEndsEverything(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a, b := pair(t)
		inHandler, ended := make(chan struct{}), false
		b.Handle(protocolEcho, func(_ slot.PeerID, s wire.Stream) {
			close(inHandler)
			_, _ = s.Read(make([]byte, 1))
			ended = true
		})
		s, err := a.Open(t.Context(), b.ID(), protocolEcho)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Write(nil); err != nil { // sends the lazy negotiation
			t.Fatal(err)
		}
		<-inHandler
		found := discover(t, b)
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
		if _, err := b.Open(t.Context(), a.ID(), protocolEcho); !errors.Is(err, net.ErrClosed) {
			t.Errorf("Open after Close: %v", err)
		}
		if _, err := b.Sign(nil); !errors.Is(err, net.ErrClosed) {
			t.Errorf("Sign after Close: %v", err)
		}
		if _, open := <-discover(t, b); open {
			t.Error("Discover after Close finds peers")
		}
	})
}

func TestProtectSetsTheExactSet(t *testing.T) {
	a, b, c := loopback(t, LAN()), slot.PeerID("b"), slot.PeerID("c")
	isProtected := func(p slot.PeerID) bool { return a.Host().ConnManager().IsProtected(peer.ID(p), peers.MemberTag) }
	a.Protect([]slot.PeerID{b, a.ID()})
	a.Protect([]slot.PeerID{c})
	if isProtected(b) || !isProtected(c) || isProtected(a.ID()) {
		t.Errorf("b %v, c %v, itself %v; want only c protected", isProtected(b), isProtected(c), isProtected(a.ID()))
	}
}

func peerOf(t *testing.T) peer.ID {
	t.Helper()
	key, err := newKey()
	if err != nil {
		t.Fatal(err)
	}
	id, err := peer.IDFromPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// TestSite: what counts for all who come from one address. Processes of this machine do not live
// together so.
func TestSite(t *testing.T) {
	a, b := loopback(t, Config{}), loopback(t, Config{})
	if got := a.Site(b.ID()); got != "unknown" {
		t.Errorf("nobody is connected: %q", got)
	}
	to := peer.AddrInfo{ID: b.env.Host.ID(), Addrs: b.env.Host.Addrs()}
	noError(t, a.env.Host.Connect(t.Context(), to))
	if got := a.Site(b.ID()); got != "" {
		t.Errorf("a process of this machine comes from %q", got)
	}
}
