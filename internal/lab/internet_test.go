package lab

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"
)

// patience bounds what must come. What must not come is told by what comes after it: packets don't
// overtake each other here.
const patience = 10 * time.Second

// newInternet makes one where that is allowed. Elsewhere it skips the test, after a look at how
// NewInternet says so.
func newInternet(t *testing.T, kinds ...Site) *Internet {
	t.Helper()
	w, err := NewInternet(t.Context(), "nattest", Link{}, kinds...)
	if err == nil {
		t.Cleanup(func() {
			if err := w.Close(); err != nil {
				t.Error(err)
			}
		})
		return w
	}
	for _, reason := range []string{"root", "modprobe tun", "install iproute2", "the kernel may lack"} {
		if strings.Contains(err.Error(), reason) {
			t.Skip("no such network here: ", err)
		}
	}
	t.Fatal(err)
	return nil
}

// socket is a UDP socket of a host.
func socket(t *testing.T, w *Internet, h int) *net.UDPConn {
	t.Helper()
	var c *net.UDPConn
	err := w.Space(h).Do(func() (err error) {
		c, err = net.ListenUDP("udp4", nil)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func portOf(c *net.UDPConn) uint16 { return c.LocalAddr().(*net.UDPAddr).AddrPort().Port() }

func send(t *testing.T, c *net.UDPConn, text string, to netip.AddrPort) {
	t.Helper()
	if _, err := c.WriteToUDPAddrPort([]byte(text), to); err != nil {
		t.Fatal(err)
	}
}

// receivePacket is the next packet and where it came from; ok is false if none comes within a time.
func receivePacket(t *testing.T, c *net.UDPConn, within time.Duration) (text string, from netip.AddrPort, ok bool) {
	t.Helper()
	if err := c.SetReadDeadline(time.Now().Add(within)); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 1500)
	n, from, err := c.ReadFromUDPAddrPort(b)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return "", from, false
	}
	if err != nil {
		t.Fatal(err)
	}
	return string(b[:n]), netip.AddrPortFrom(from.Addr().Unmap(), from.Port()), true
}

// Hosts of the internet that most of the tests have in common; each has a site of its own.
const (
	serverA = iota
	serverB
	cone
	restricted
	symmetric
	noUDP
	otherRestricted
	otherSymmetric
)

// TestInternet makes one, for that takes longest.
func TestInternet(t *testing.T) {
	w := newInternet(t, Public, Public, FullCone, PortRestricted, Symmetric, NoUDP, PortRestricted, Symmetric)
	t.Run("kinds", func(t *testing.T) { testKinds(t, w) })
	t.Run("TCP", func(t *testing.T) { testTCP(t, w) })
	t.Run("holes", func(t *testing.T) { testHoles(t, w) })
}

// testKinds finds out what RFC 5780 asks: a host sends from one port to two servers, one after the
// other, and each server says under what address it was seen; before, the second and another port
// of the first try to reach the address that the first saw.
func testKinds(t *testing.T, w *Internet) {
	for _, x := range []struct {
		host    int
		mapped  bool // the same port towards both
		anyAddr bool // whether a packet from another address comes in
		anyPort bool // from another port of an address that was sent to
		udp     bool
	}{
		{cone, true, true, true, true},
		{restricted, true, false, false, true},
		{symmetric, false, false, false, true},
		{noUDP, false, false, false, false},
	} {
		t.Run(string(w.Kind(x.host)), func(t *testing.T) {
			if !w.Addr(x.host).IsPrivate() {
				t.Errorf("the host's address is %v", w.Addr(x.host))
			}
			a, otherPort, b, host := socket(t, w, serverA), socket(t, w, serverA), socket(t, w, serverB),
				socket(t, w, x.host)
			place := func(h int, c *net.UDPConn) netip.AddrPort {
				return netip.AddrPortFrom(w.lab.Addr(h),
					portOf(c))
			}
			send(t, host, "hello", place(0, a))
			within := patience
			if !x.udp {
				within = 200 * time.Millisecond
			}
			_, seen, ok := receivePacket(t, a, within)
			if ok != x.udp {
				t.Fatalf("UDP passes: %v", ok)
			}
			if !ok {
				return
			}
			if seen.Addr() != w.lab.Addr(x.host) {
				t.Errorf("the host is seen at %v, its public address is %v", seen, w.lab.Addr(x.host))
			}
			got := knock(t, host, seen, b, otherPort, a, place(0, a))
			if strings.Contains(got, "address") != x.anyAddr || strings.Contains(got, "port") != x.anyPort {
				t.Errorf("what came in: %q", got)
			}
			send(t, host, "hello", place(1, b))
			_, again, ok := receivePacket(t, b, patience)
			if !ok || (again.Port() == seen.Port()) != x.mapped {
				t.Errorf("the host is seen at %v, then at %v, %v", seen, again, ok)
			}
		})
	}
}

// knock sends to the address where a host was seen: from another address, from another port, and
// from where it sent to. That the last arrives says that those before it were dropped if they are
// not there.
func knock(t *testing.T, host *net.UDPConn, seen netip.AddrPort, otherAddr, otherPort, asked *net.UDPConn,
	server netip.AddrPort,
) (got string) {
	t.Helper()
	send(t, otherAddr, "address ", seen)
	send(t, otherAddr, "I have knocked", server)
	if _, _, ok := receivePacket(t, asked, patience); !ok {
		t.Fatal("public hosts don't hear each other")
	}
	send(t, otherPort, "port ", seen)
	send(t, asked, "asked", seen)
	for {
		text, _, ok := receivePacket(t, host, patience)
		if !ok {
			t.Fatal("not even who was asked is heard")
		}
		if text == "asked" {
			return got
		}
		got += text
	}
}

// testTCP: from every kind a TCP connection to a public host opens, and none the other way but to a
// public host.
func testTCP(t *testing.T, w *Internet) {
	server := listenAt(t, w, serverA)
	for h := serverB; h <= noUDP; h++ {
		from := dialFrom(t, w, h, netip.AddrPortFrom(w.lab.Addr(serverA), server), patience)
		if from == nil {
			t.Fatalf("%s: no TCP to a public host", w.Kind(h))
		}
		to := dialFrom(t, w, serverA, netip.AddrPortFrom(w.lab.Addr(h), listenAt(t, w, h)), 200*time.Millisecond)
		if (to != nil) != (w.Kind(h) == Public) {
			t.Errorf("%s: TCP from outside: %v", w.Kind(h), to != nil)
		}
	}
}

func listenAt(t *testing.T, w *Internet, h int) (port uint16) {
	t.Helper()
	var l net.Listener
	err := w.Space(h).Do(func() (err error) {
		l, err = new(net.ListenConfig).Listen(t.Context(), "tcp4", "0.0.0.0:0")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l.Addr().(*net.TCPAddr).AddrPort().Port()
}

// dialFrom connects, or returns nil if nobody answers within a time.
func dialFrom(t *testing.T, w *Internet, h int, to netip.AddrPort, within time.Duration) (c net.Conn) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	err := w.Space(h).Do(func() (err error) {
		c, err = new(net.Dialer).DialContext(ctx, "tcp4", to.String())
		return err
	})
	if err != nil {
		if !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatal(err)
		}
		return nil
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// testHoles: of two hosts behind routers each learns where a server saw the other, and both send
// there. What can come of it is what the kinds say: not between two symmetric ones.
func testHoles(t *testing.T, w *Internet) {
	server := socket(t, w, serverA)
	for _, x := range []struct {
		a, b    int
		succeed bool
	}{
		{cone, restricted, true},
		{restricted, otherRestricted, true},
		{cone, symmetric, true},
		{restricted, symmetric, false},
		{symmetric, otherSymmetric, false},
	} {
		a, b := socket(t, w, x.a), socket(t, w, x.b)
		seenA, seenB := seenBy(t, w, server, a), seenBy(t, w, server, b)
		send(t, a, "first", seenB) // opens a's side, may be dropped at b's
		send(t, b, "second", seenA)
		within := 200 * time.Millisecond
		if x.succeed {
			within = patience
		}
		_, from, heard := receivePacket(t, a, within)
		if !heard { // only b's side may be open to what a sends
			_, from, heard = receivePacket(t, b, within)
		}
		if heard != x.succeed {
			t.Errorf("%s and %s: heard %v, from %v", w.Kind(x.a), w.Kind(x.b), heard, from)
		}
	}
}

func seenBy(t *testing.T, w *Internet, server, c *net.UDPConn) netip.AddrPort {
	t.Helper()
	send(t, c, "who am I", netip.AddrPortFrom(w.lab.Addr(0), portOf(server)))
	_, seen, ok := receivePacket(t, server, patience)
	if !ok {
		t.Fatal("the server hears nothing")
	}
	return seen
}
