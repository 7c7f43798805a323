package tcpnet

import (
	"context"
	"io"
	"net"
	"testing"
	"time"

	libp2ptls "github.com/libp2p/go-libp2p/p2p/security/tls"
	manet "github.com/multiformats/go-multiaddr/net"

	"github.com/p2pdiloco/p2pdiloco/p2p/internal/liveness"
)

// ended is a pair of TCP connections with multiaddrs, of which the second has been peeked at.
func ended(t *testing.T) (dialled, taken manet.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ends := make([]manet.Conn, 2)
	for i, open := range []func() (net.Conn, error){
		func() (net.Conn, error) { return net.Dial("tcp", l.Addr().String()) }, l.Accept,
	} {
		c, err := open()
		if err != nil {
			t.Fatal(err)
		}
		if ends[i], err = manet.WrapNetConn(c); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
	}
	return ends[0], &peeked{Conn: ends[1]}
}

// secured are both ends of a connection that is secured.
func secured(t *testing.T, from, to *LargeTLS, dialled, taken net.Conn) (a, b net.Conn) {
	t.Helper()
	in := make(chan net.Conn, 1)
	go func() {
		c, err := to.SecureInbound(context.Background(), taken, "")
		if err != nil {
			t.Error(err)
		}
		in <- c
	}()
	a, err := from.SecureOutbound(context.Background(), dialled, to.self)
	if err != nil {
		t.Fatal(err)
	}
	return a, <-in
}

// large is a LargeTLS whose connections' sockets are among some.
func large(t *testing.T, sockets *Sockets) *LargeTLS {
	t.Helper()
	key, _ := newKey(t)
	l, err := sockets.LargeTLS(libp2ptls.ID, key, nil)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// Where libp2p refuses a peer that has proven its ID it closes what is below TLS, and not TLS. A
// peer that is refused again and again takes no memory for that.
func TestSocketsOfRefusedPeersAreForgotten(t *testing.T) {
	sockets := NewSockets()
	from, to := large(t, sockets), large(t, sockets)
	dialled, taken := ended(t)
	secured(t, from, to, dialled, taken)
	for range leastSweep {
		dialled, taken := ended(t)
		secured(t, from, to, dialled, taken)
		_ = dialled.Close()
		_ = taken.Close()
	}
	if n := len(sockets.mu.of); n > leastSweep {
		t.Errorf("%d sockets are remembered, of which 2 are open", n)
	}
	if tellsAcks && (sockets.Acks(dialled) == nil || sockets.Acks(taken) == nil) {
		t.Error("a connection that is open is forgotten")
	}
}

// The system tells of both ends of a secured connection what was acknowledged, until it is closed.
func TestSocketsTellOfAcks(t *testing.T) {
	if !tellsAcks {
		t.Skip("it does not, here")
	}
	sockets := NewSockets()
	dialled, taken := ended(t)
	a, b := secured(t, large(t, sockets), large(t, sockets), dialled, taken)
	for _, c := range []struct {
		raw      manet.Conn
		to, from net.Conn
	}{{dialled, a, b}, {taken, b, a}} {
		ask := sockets.Acks(c.raw)
		if ask == nil {
			t.Fatal("nothing tells of a connection")
		}
		before := ask()
		text := []byte("something")
		if _, err := c.to.Write(text); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(c.from, make([]byte, len(text))); err != nil {
			t.Fatal(err)
		}
		var now liveness.Acks
		for range 100 { // the other end may keep its acknowledgement back for a moment
			if now = ask(); !now.Waiting && now.Count >= before.Count+uint64(len(text)) {
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
		if now.Waiting || now.Count < before.Count+uint64(len(text)) || now.Came == 0 || now.Trip == 0 {
			t.Errorf("of %d bytes that came it tells %+v, and before %+v", len(text), now, before)
		}
		if direct := Acks(c.raw); direct == nil || direct().Count != now.Count {
			t.Error("a connection tells something else by itself")
		}
	}
	for i, c := range []net.Conn{a, b} {
		raw := []manet.Conn{dialled, taken}[i]
		ask := sockets.Acks(raw)
		if _ = c.Close(); sockets.Acks(raw) != nil || ask() != (liveness.Acks{}) {
			t.Error("a connection that is closed is remembered")
		}
	}
}
