package bulk

import (
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/wire"
)

// bothEnds opens a stream and returns the accepting end too, whose handler ends when the test does.
func bothEnds(t *testing.T, a, b *node) (opened, accepted wire.Stream) {
	t.Helper()
	got, done := make(chan wire.Stream, 1), make(chan struct{})
	t.Cleanup(func() { close(done) })
	b.Handle(exchange, func(_ slot.PeerID, s wire.Stream) {
		got <- s
		<-done
	})
	opened = openBulk(t, a, b, exchange)
	if _, ok := opened.(*Stream); !ok {
		t.Fatalf("a stream of type %T", opened)
	}
	return opened, <-got
}

func readSome(s wire.Stream) error {
	_, err := io.ReadFull(s, make([]byte, 1))
	return err
}

func TestBulkHalfClose(t *testing.T) {
	a, b := tcpPair(t)
	x, y := bothEnds(t, a, b)
	noError(t, x.CloseWrite())
	if err := readSome(y); !errors.Is(err, io.EOF) {
		t.Errorf("reading after the other side's CloseWrite: %v", err)
	}
	if _, err := x.Write([]byte{1}); !errors.Is(err, net.ErrClosed) {
		t.Errorf("writing after CloseWrite: %v", err)
	}
	if _, err := y.Write([]byte{1}); err != nil {
		t.Errorf("the other direction: %v", err)
	}
	if err := readSome(x); err != nil {
		t.Errorf("the other direction: %v", err)
	}
	if err := y.Close(); err != nil {
		t.Error(err)
	}
	if err := readSome(x); !errors.Is(err, io.EOF) {
		t.Errorf("reading after the other side's Close: %v", err)
	}
}

// TestBulkReset sees a reset and a cut connection as errors, which are not io.EOF, on the other
// side, whichever it is.
func TestBulkReset(t *testing.T) {
	ends := map[string]func(s wire.Stream){
		"reset": func(s wire.Stream) { _ = s.Reset() },
		"cut":   func(s wire.Stream) { _ = s.(*Stream).c.raw.Close() },
		"TLS closed": func(s wire.Stream) {
			_ = s.(*Stream).c.tls.Close()
		},
	}
	for name, end := range ends {
		for _, byDialer := range []bool{true, false} {
			a, b := tcpPair(t)
			x, y := bothEnds(t, a, b)
			if !byDialer {
				x, y = y, x
			}
			read := make(chan error)
			go func() { read <- readSome(y) }()
			end(x)
			// The kernel must not end a connection as if all had come, where bytes are lost.
			if err := <-read; err == nil || errors.Is(err, io.EOF) ||
				name == "reset" && !errors.Is(err, syscall.ECONNRESET) {
				t.Errorf("%s by the dialer %v: the other side read %v", name, byDialer, err)
			}
			_ = x.Reset()
			_ = y.Reset()
		}
	}
}

// TestBulkReadsAfterADeadline: one that passed loses no byte.
func TestBulkReadsAfterADeadline(t *testing.T) {
	a, b := tcpPair(t)
	x, y := bothEnds(t, a, b)
	noError(t, y.SetReadDeadline(time.Now()))
	if err := readSome(y); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("reading after the deadline: %v", err)
	}
	_, err := x.Write([]byte("x"))
	if err := errors.Join(err, y.SetReadDeadline(time.Time{}), readSome(y)); err != nil {
		t.Error(err)
	}
}

// TestBulkPoolExhausted takes libp2p's connection for what goes beyond.
func TestBulkPoolExhausted(t *testing.T) {
	a, b := tcpPair(t)
	b.Handle(exchange, echo)
	own := 0
	for range MaxConns + 3 {
		s := openBulk(t, a, b, exchange)
		defer s.Reset() //nolint:errcheck // the end
		if _, ok := s.(*Stream); ok {
			own++
		}
		if _, err := s.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
		noError(t, readSome(s))
	}
	if own != MaxConns {
		t.Errorf("%d streams have a connection of their own, want %d", own, MaxConns)
	}
}

// TestBulkWithAPeerThatHasNone falls back to libp2p's connection, and does not dial for each
// stream.
func TestBulkWithAPeerThatHasNone(t *testing.T) {
	old, err := libp2p.New(libp2p.ListenAddrStrings("/ip4/127.0.0.1/tcp/0"), libp2p.DisableRelay())
	if err != nil {
		t.Fatal(err)
	}
	defer old.Close() //nolint:errcheck // the end
	old.SetStreamHandler(exchange, func(s network.Stream) {
		_, _ = io.Copy(s, s)
		_ = s.Close()
	})
	a := loopback(t)
	a.host.Peerstore().AddAddrs(old.ID(), old.Addrs(), time.Hour)
	for range 2 {
		s, err := a.OpenBulk(bounded(t), old.ID(), exchange)
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := s.(*Stream); ok {
			t.Fatalf("a stream of type %T", s)
		}
		if _, err := s.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
		noError(t, readSome(s))
		_ = s.Close()
		a.mu.Lock()
		if p := a.mu.peers[old.ID()]; p == nil || p.backoff != minBackoff {
			t.Errorf("what is known of the peer: %+v", p)
		}
		a.mu.Unlock()
	}
	// Connected anew it may have learned to.
	a.anew(old.ID())
	if c, err := a.takeIdle(old.ID()); c != nil || err != nil {
		t.Errorf("after a new connection: %v, %v; want leave to dial", c, err)
	}
}

// TestBulkWrongIdentity dials an address where another peer listens.
func TestBulkWrongIdentity(t *testing.T) {
	a, b := tcpPair(t)
	other := loopback(t)
	id := other.id()
	a.host.Peerstore().AddAddrs(id, b.host.Addrs(), time.Hour)
	if c, err := a.dial(t.Context(), id); err == nil {
		c.close()
		t.Error("another peer was taken for the one wanted")
	}
}

// TestBulkEndsWithThePeersConnection: what shows that a peer is gone ends its streams, used and
// idle.
func TestBulkEndsWithThePeersConnection(t *testing.T) {
	a, b := tcpPair(t)
	x, y := bothEnds(t, a, b)
	noError(t, a.host.Network().ClosePeer(b.id()))
	for _, s := range []wire.Stream{x, y} {
		if err := readSome(s); err == nil || errors.Is(err, io.EOF) {
			t.Errorf("the stream lives on: %v", err)
		}
	}
}

func TestBulkCloseInUse(t *testing.T) {
	a, b := tcpPair(t)
	x, y := bothEnds(t, a, b)
	blocked := make(chan error, 2)
	go func() { blocked <- readSome(x) }()
	go func() {
		_, err := io.Copy(x, zeros{})
		blocked <- err
	}()
	noError(t, readSome(y))
	if err := a.Close(); err != nil {
		t.Error(err)
	}
	for range 2 {
		if err := <-blocked; !errors.Is(err, net.ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
	}
	if _, err := a.OpenBulk(bounded(t), b.id(), exchange); !errors.Is(err, net.ErrClosed) {
		t.Errorf("opening after Close: %v", err)
	}
	if _, err := io.Copy(io.Discard, y); err == nil {
		t.Error("the other side saw a clean end")
	}
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) { return len(b), nil }

// TestBulkGarbage sends bytes that mean nothing, before and after the handshake. The connection
// ends, and others are served.
func TestBulkGarbage(t *testing.T) {
	a, b := tcpPair(t)
	b.Handle(exchange, echo)
	addr := b.host.Addrs()[0]
	port, _ := addr.ValueForProtocol(6)
	for _, junk := range []string{
		"GET / HTTP/1.1\r\n\r\n", "\x16\x03\x01\xff\xff" + string(make([]byte, 70000)),
		"\x16\x03\x01\x00\x05hello", "\x00\x00\x00",
	} {
		c, err := net.Dial("tcp", "127.0.0.1:"+port)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = c.Write([]byte(junk))
		_ = c.SetReadDeadline(time.Now().Add(20 * time.Second))
		if _, err := io.Copy(io.Discard, c); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("after %q: the connection lives on", junk[:3])
		}
		_ = c.Close()
	}
	noError(t, a.env.Dialer.Connect(t.Context(), peer.AddrInfo{ID: b.id()}))
	for _, h := range []header{
		{kindData, 1},
		{kindReady, 0},
		{kindOpen, maxProtocolName + 1},
		{9, 0},
		{kindOpen, 0},
	} {
		c, err := a.dialAddr(t.Context(), b.id(), addr)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = c.tls.Write(h.append(nil))
		_, _ = c.records.Flush()
		_ = c.raw.SetReadDeadline(time.Now().Add(20 * time.Second))
		if _, err := io.Copy(io.Discard, c.tls); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("after %+v: the connection lives on", h)
		}
		c.close()
	}
	s := openBulk(t, a, b, exchange)
	_, err := s.Write([]byte("x"))
	if err := errors.Join(err, readSome(s), s.Close()); err != nil {
		t.Error(err)
	}
}
