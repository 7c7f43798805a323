package bulk

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/multiformats/go-multiaddr"

	"github.com/p2pdiloco/p2pdiloco/internal/sim"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/wire"
)

var elsewhere = multiaddr.StringCast("/ip4/198.51.100.1/tcp/4001")

// notedScope notes what is asked of the resource manager, in order.
type notedScope struct {
	network.NullScope
	asked  []string
	refuse bool
}

func (s *notedScope) ReserveMemory(size int, _ uint8) error {
	s.asked = append(s.asked, fmt.Sprint("memory ", size))
	if s.refuse {
		return errors.New("no memory")
	}
	return nil
}

func (s *notedScope) SetPeer(peer.ID) error {
	s.asked = append(s.asked, "peer")
	return nil
}

// TestBulkMemoryIsCounted: little of a stranger that shakes hands, before anything is read from it,
// and the rest on the peer's account.
func TestBulkMemoryIsCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := bulkPair(t)
		x, y := net.Pipe()
		scope := &notedScope{}
		far.accept(Incoming{Conn: y, From: somewhere, Scope: scope})
		c, err := near.handshake(t.Context(), x, far.id(), &network.NullScope{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.expect(kindReady, time.Now().Add(time.Second)); err != nil {
			t.Fatal(err)
		}
		want := []string{
			fmt.Sprint("memory ", shakeMemory), "peer",
			fmt.Sprint("memory ", connMemory-shakeMemory),
		}
		if !slices.Equal(scope.asked, want) {
			t.Errorf("asked for %v, want %v", scope.asked, want)
		}
		c.close()
		x, y = net.Pipe()
		far.accept(Incoming{Conn: y, From: somewhere, Scope: &notedScope{refuse: true}})
		if n, err := x.Write([]byte{0x16}); n != 0 || err == nil {
			t.Error("read from a connection for which there is no memory")
		}
		synctest.Wait()
		if far.known() != 0 {
			t.Error("it is still there")
		}
	})
}

// TestBulkNeedsLibp2psConnection: without one nothing is served, and one that comes about a moment
// later is waited for.
func TestBulkNeedsLibp2psConnection(t *testing.T) {
	for _, late := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := sim.New(t, 2, time.Millisecond)
			near := simulated(t, s, 0)
			far := simulated(t, s, 1)
			x, y := net.Pipe()
			far.accept(Incoming{Conn: y, From: somewhere, Scope: &network.NullScope{}})
			c, err := near.handshake(t.Context(), x, far.id(), &network.NullScope{})
			if err != nil {
				t.Fatal(err)
			}
			if late {
				time.Sleep(aloneTimeout / 2)
				s.Connect(0, 1)
			}
			began := time.Now()
			if _, err := c.expect(kindReady, began.Add(2*aloneTimeout)); (err == nil) != late || wire.TimedOut(err) {
				t.Errorf("connected late %v: %v", late, err)
			}
			if took := time.Since(began); late && took > time.Second {
				t.Errorf("connected, and ready %s later", took)
			}
			c.close()
			synctest.Wait()
			if far.known() != 0 {
				t.Error("it is still there")
			}
		})
	}
}

// TestBulkLongHandshake: who says more in a handshake than one takes is cut off.
func TestBulkLongHandshake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, far := bulkPair(t)
		x, y := net.Pipe()
		far.accept(Incoming{Conn: y, From: somewhere, Scope: &network.NullScope{}})
		// a ClientHello of nearly 64 KiB begins
		hello := append([]byte{1, 0, 0xff, 0xf0}, make([]byte, 16<<10-4)...)
		said := 0
		for err := error(nil); err == nil; {
			var n int
			if n, err = x.Write([]byte{0x16, 3, 1, 0x40, 0}); err == nil {
				said += n
				n, err = x.Write(hello)
			}
			said += n
			clear(hello[:4])
		}
		if said > MaxHandshake+RecordsSmall {
			t.Errorf("%d bytes were taken of a handshake, want at most %d", said, MaxHandshake)
		}
	})
}

// TestBulkManyHandshakes: those that begin one and say no more hold up nobody from elsewhere.
func TestBulkManyHandshakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := bulkPair(t)
		silent := make([]net.Conn, 2*maxShaking)
		for i := range silent {
			x, y := net.Pipe()
			far.accept(Incoming{Conn: y, From: elsewhere, Scope: &network.NullScope{}})
			silent[i] = x
			synctest.Wait()
			if n := far.known(); n > maxShaking {
				t.Fatalf("%d connections shake hands", n)
			}
		}
		x, y := net.Pipe()
		far.accept(Incoming{Conn: y, From: somewhere, Scope: &network.NullScope{}})
		c, err := near.handshake(t.Context(), x, far.id(), &network.NullScope{})
		if err != nil {
			t.Fatalf("a handshake beside many: %v", err)
		}
		c.close()
		for _, c := range silent {
			_ = c.Close()
		}
	})
}

// TestBulkIsForBulk: other protocols have libp2p's connection; a pulse over another one would stand
// for it.
func TestBulkIsForBulk(t *testing.T) {
	a, b := tcpPair(t)
	for _, proto := range []string{hello, ledger, protoEcho} {
		b.Handle(proto, func(slot.PeerID, wire.Stream) { t.Errorf("%s is served", proto) })
	}
	noError(t, a.env.Dialer.Connect(t.Context(), peer.AddrInfo{ID: b.id()}))
	for _, proto := range []string{pulse, hello, ledger, protoEcho} {
		c, err := a.dialAddr(t.Context(), b.id(), b.host.Addrs()[0])
		if err != nil {
			t.Fatal(err)
		}
		if err := c.send(kindOpen, []byte(proto), time.Now().Add(20*time.Second)); err != nil {
			t.Error(err)
		}
		_ = c.raw.SetReadDeadline(time.Now().Add(20 * time.Second))
		if _, err := c.readHeader(); err == nil || wire.TimedOut(err) {
			t.Errorf("%s over a bulk connection: %v", proto, err)
		}
		c.close()
	}
}
