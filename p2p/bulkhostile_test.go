package p2p

import (
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"syscall"
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

// TestBulkMemoryIsCounted: little of a stranger that shakes hands, before anything is read from it, and the rest on the peer's account.
func TestBulkMemoryIsCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := bulkPair(t)
		x, y := net.Pipe()
		scope := &notedScope{}
		far.accept(y, somewhere, scope)
		c, err := near.handshake(t.Context(), x, far.id(), &network.NullScope{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.expect(bulkReady, time.Now().Add(time.Second)); err != nil {
			t.Fatal(err)
		}
		want := []string{fmt.Sprint("memory ", bulkShakeMemory), "peer", fmt.Sprint("memory ", bulkConnMemory-bulkShakeMemory)}
		if !slices.Equal(scope.asked, want) {
			t.Errorf("asked for %v, want %v", scope.asked, want)
		}
		c.close()
		x, y = net.Pipe()
		far.accept(y, somewhere, &notedScope{refuse: true})
		if n, err := x.Write([]byte{0x16}); n != 0 || err == nil {
			t.Error("read from a connection for which there is no memory")
		}
		synctest.Wait()
		if known(far) != 0 {
			t.Error("it is still there")
		}
	})
}

// TestBulkNeedsLibp2psConnection: without one nothing is served, and one that comes about a moment later is waited for.
func TestBulkNeedsLibp2psConnection(t *testing.T) {
	for _, late := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := sim.New(t, 2, time.Millisecond)
			near, err := newBulk(simulated(t, s, 0, LAN()))
			if err != nil {
				t.Fatal(err)
			}
			far, err := newBulk(simulated(t, s, 1, LAN()))
			if err != nil {
				t.Fatal(err)
			}
			x, y := net.Pipe()
			far.accept(y, somewhere, &network.NullScope{})
			c, err := near.handshake(t.Context(), x, far.id(), &network.NullScope{})
			if err != nil {
				t.Fatal(err)
			}
			if late {
				time.Sleep(bulkAlone / 2)
				s.Connect(0, 1)
			}
			began := time.Now()
			if _, err := c.expect(bulkReady, began.Add(2*bulkAlone)); (err == nil) != late || wire.TimedOut(err) {
				t.Errorf("connected late %v: %v", late, err)
			}
			if took := time.Since(began); late && took > time.Second {
				t.Errorf("connected, and ready %s later", took)
			}
			c.close()
			synctest.Wait()
			if known(far) != 0 {
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
		far.accept(y, somewhere, &network.NullScope{})
		hello := append([]byte{1, 0, 0xff, 0xf0}, make([]byte, 16<<10-4)...) // a ClientHello of nearly 64 KiB begins
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
		if said > maxHandshake+recordsSmall {
			t.Errorf("%d bytes were taken of a handshake, want at most %d", said, maxHandshake)
		}
	})
}

// TestBulkManyHandshakes: those that begin one and say no more hold up nobody from elsewhere.
func TestBulkManyHandshakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := bulkPair(t)
		silent := make([]net.Conn, 2*maxBulkShaking)
		for i := range silent {
			x, y := net.Pipe()
			far.accept(y, elsewhere, &network.NullScope{})
			silent[i] = x
			synctest.Wait()
			if n := known(far); n > maxBulkShaking {
				t.Fatalf("%d connections shake hands", n)
			}
		}
		x, y := net.Pipe()
		far.accept(y, somewhere, &network.NullScope{})
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

// TestRecordsOfStrangersAreSmall: no large buffer in a handshake, whatever comes; after it they grow as ever.
func TestRecordsOfStrangersAreSmall(t *testing.T) {
	x, y := net.Pipe()
	inner := &countingConn{Conn: y}
	c := newRecordConn(inner)
	c.restrain(5 * recordsSmall)
	go func() {
		_, _ = x.Write(make([]byte, 100*recordsSmall))
		_ = x.Close()
	}()
	if n, err := io.CopyN(io.Discard, c, 5*recordsSmall); err != nil {
		t.Fatalf("%d bytes: %v", n, err)
	}
	if slices.Max(inner.rooms) > recordsSmall {
		t.Errorf("reads of %v", inner.rooms)
	}
	if _, err := c.Read(make([]byte, 1)); !errors.Is(err, errTalkative) {
		t.Errorf("reading on: %v", err)
	}
	c.release()
	if n, err := io.Copy(io.Discard, c); n != 95*recordsSmall || err != nil || slices.Max(inner.rooms) != recordsAtOnce {
		t.Errorf("after the handshake %d bytes came in reads of %v: %v", n, inner.rooms, err)
	}
}

// TestBulkIsForBulk: other protocols have libp2p's connection; a pulse over another one would stand for it.
func TestBulkIsForBulk(t *testing.T) {
	a, b := tcpPair(t, nil)
	served := make(chan string, 8)
	for _, proto := range []string{ProtocolHello, ProtocolLedger, protocolEcho, ProtocolExchange, ProtocolState} {
		b.Handle(proto, func(slot.PeerID, wire.Stream) { served <- proto })
	}
	if err := a.connect(t.Context(), peer.AddrInfo{ID: peer.ID(b.ID())}); err != nil {
		t.Fatal(err)
	}
	for _, proto := range []string{ProtocolPulse, ProtocolHello, ProtocolLedger, protocolEcho} {
		c, err := a.bulk.dialAddr(t.Context(), peer.ID(b.ID()), b.Host().Addrs()[0])
		if err != nil {
			t.Fatal(err)
		}
		if err := c.send(bulkOpen, []byte(proto), time.Now().Add(20*time.Second)); err != nil {
			t.Error(err)
		}
		_ = c.raw.SetReadDeadline(time.Now().Add(20 * time.Second))
		if _, err := c.readHeader(); err == nil || wire.TimedOut(err) {
			t.Errorf("%s over a bulk connection: %v", proto, err)
		}
		c.close()
	}
	for _, proto := range []string{ProtocolExchange, ProtocolState, protocolEcho} {
		s := openBulk(t, a, b, proto)
		if _, err := s.Write(nil); err != nil {
			t.Error(err)
		}
		_ = s.CloseWrite()
		if got := <-served; got != proto {
			t.Errorf("%s was served, want %s", got, proto)
		}
		if _, bulk := s.(*bulkStream); bulk != (proto != protocolEcho) {
			t.Errorf("%s: a stream of type %T", proto, s)
		}
		_ = s.Close()
	}
}

// TestBulkEndsWithAReset: where bytes are lost the kernel must not end the connection as if they had all come.
func TestBulkEndsWithAReset(t *testing.T) {
	for _, byDialer := range []bool{true, false} {
		a, b := tcpPair(t, nil)
		x, y := bothEnds(t, a, b)
		if !byDialer {
			x, y = y, x
		}
		if err := x.Reset(); err != nil {
			t.Error(err)
		}
		if err := readSome(y); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("reset by the dialer %v: the other side read %v", byDialer, err)
		}
	}
}
