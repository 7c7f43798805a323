package bulk

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/p2pdiloco/p2pdiloco/internal/sim"
)

// bulkPair is the bulk connections of two simulated peers that are connected.
func bulkPair(t *testing.T) (near, far *node) {
	t.Helper()
	s := sim.New(t, 2, time.Millisecond)
	near, far = simulated(t, s, 0), simulated(t, s, 1)
	s.Connect(0, 1)
	return near, far
}

func (b *Conns) id() peer.ID { return b.env.Host.ID() }

// to is a dialled connection to another one, which has shaken hands and does nothing more: its end
// of the pipe comes with it.
func (b *Conns) to(t *testing.T, far *Conns) (c *conn, end net.Conn) {
	t.Helper()
	x, y := net.Pipe()
	go func() { _, _ = far.handshake(t.Context(), y, "", &network.NullScope{}) }()
	c, err := b.handshake(t.Context(), x, far.id(), &network.NullScope{})
	if err != nil {
		t.Fatal(err)
	}
	return c, y
}

func (b *Conns) backoffOf(id peer.ID) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	if p := b.mu.peers[id]; p != nil {
		return p.backoff
	}
	return 0
}

// TestBulkFailuresAtOnceCountOnce: many streams are opened at a time, and all dials fail when a
// peer has gone.
func TestBulkFailuresAtOnceCountOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var dials atomic.Int32
		b, far := bulkPair(t)
		to := far.id()
		b.reach = func(context.Context, peer.ID) (*conn, error) {
			// the last one longer than the first pause
			time.Sleep(time.Duration(dials.Add(1)) * 5 * time.Second)
			return nil, errors.New("no answer")
		}
		event := func() {
			dials.Store(0)
			for range MaxConns {
				go func() { _, _ = b.Open(t.Context(), to, exchange) }()
			}
			time.Sleep(6 * time.Second)
		}
		event()
		if got := b.backoffOf(to); got != minBackoff {
			t.Errorf("a pause of %s after one failure", got)
		}
		time.Sleep(2 * time.Minute)
		if got := b.backoffOf(to); got != minBackoff {
			t.Errorf("a pause of %s after all that began together", got)
		}
		event()
		time.Sleep(2 * time.Minute)
		if got := b.backoffOf(to); got != 2*minBackoff {
			t.Errorf("a pause of %s after two failures, one after the other", got)
		}
		dials.Store(11)
		go func() { _, _ = b.Open(t.Context(), to, exchange) }()
		time.Sleep(30 * time.Second)
		b.anew(to)
		time.Sleep(time.Minute)
		if got := b.backoffOf(to); got != 0 {
			t.Errorf("a pause of %s after an attempt that began before the peer connected anew", got)
		}
	})
}

// TestBulkOpenGivesUp on a peer whose connections come about and are of no use, and leaves it alone
// for a while.
func TestBulkOpenGivesUp(t *testing.T) {
	for name, use := range map[string]func(end net.Conn){
		"closed": func(end net.Conn) { _ = end.Close() },
		"stuck":  func(net.Conn) {},
	} {
		synctest.Test(t, func(t *testing.T) {
			b, far := bulkPair(t)
			dials := 0
			b.reach = func(context.Context, peer.ID) (*conn, error) {
				if dials++; dials > 10 {
					return nil, errors.New("that is enough")
				}
				c, end := b.to(t, far.Conns)
				use(end)
				return c, nil
			}
			began := time.Now()
			if _, err := b.Open(t.Context(), far.id(), exchange); !errors.Is(err, errNone) {
				t.Errorf("%s: %v", name, err)
			}
			if took := time.Since(began); dials > maxTries || took > openTimeout {
				t.Errorf("%s: gave up after %d connections and %s", name, dials, took)
			}
			before := dials
			if _, err := b.Open(t.Context(), far.id(), exchange); !errors.Is(err, errNone) ||
				dials != before {
				t.Errorf("%s: %d connections more at once: %v", name, dials-before, err)
			}
			if n := b.known(); n != 0 {
				t.Errorf("%s: %d connections are kept", name, n)
			}
		})
	}
}

// breaking makes streams to another peer, whose connections something on the way can end.
type breaking struct {
	*testing.T
	near, far *node
	last      net.Conn // the far end of the newest connection
}

func newBreaking(t *testing.T) *breaking {
	t.Helper()
	k := &breaking{T: t}
	k.near, k.far = bulkPair(t)
	t.Cleanup(func() { _ = k.near.Close(); _ = k.far.Close() })
	k.far.Handle(exchange, echo)
	k.near.reach = func(ctx context.Context, to peer.ID) (*conn, error) {
		x, y := net.Pipe()
		k.last = y
		k.far.accept(Incoming{Conn: y, From: somewhere, Scope: &network.NullScope{}})
		c, err := k.near.handshake(ctx, x, to, &network.NullScope{})
		if err == nil {
			_, err = c.expect(kindReady, time.Now().Add(handshakeTimeout))
		}
		return c, err
	}
	return k
}

// stream opens one that has carried something; nil if there is no connection for it.
func (k *breaking) stream() *Stream {
	k.Helper()
	s, err := k.near.Open(k.Context(), k.far.id(), exchange)
	if err != nil {
		return nil
	}
	if _, err := s.Write([]byte("x")); err != nil {
		k.Fatal(err)
	}
	if err := readSome(s); err != nil {
		k.Fatal(err)
	}
	return s
}

// breaks has something on the way end the connection of the newest stream.
func (k *breaking) breaks(s *Stream) {
	k.Helper()
	if s == nil {
		k.Fatal("no bulk connection")
	}
	_ = k.last.Close()
	if err := readSome(s); err == nil {
		k.Error("the stream goes on")
	}
	_ = s.Reset()
	time.Sleep(time.Second)
}

// TestBulkBreaksAgainAndAgain: something on the way lets connections come about and ends them. Then
// streams go over libp2p's connection, for longer each time, until one lasts.
func TestBulkBreaksAgainAndAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newBreaking(t)
		for range maxBroke {
			k.breaks(k.stream())
		}
		for _, pause := range []time.Duration{minBackoff, 2 * minBackoff, 4 * minBackoff} {
			time.Sleep(pause - 2*time.Second)
			if k.stream() != nil {
				t.Errorf("a bulk connection before %s are over", pause)
			}
			time.Sleep(2 * time.Second)
			k.breaks(k.stream())
		}
		time.Sleep(8 * minBackoff)
		lasts := func() {
			s := k.stream()
			if s == nil {
				t.Fatal("no bulk connection")
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			time.Sleep(time.Second)
		}
		lasts()
		if got := k.near.backoffOf(k.far.id()); got != 0 {
			t.Errorf("a pause of %s after a stream that lasted", got)
		}
		for range maxBroke {
			k.breaks(k.stream())
			lasts()
		}
	})
}

// TestBulkConnectionOfNobody: libp2p's connection went while a bulk connection came about.
func TestBulkConnectionOfNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, far := bulkPair(t)
		b.reach = func(context.Context, peer.ID) (*conn, error) {
			c, _ := b.to(t, far.Conns)
			return c, b.env.Host.Network().ClosePeer(far.id())
		}
		if _, err := b.Open(t.Context(), far.id(), exchange); !errors.Is(err, errNone) || b.known() != 0 {
			t.Errorf("%v, %d connections", err, b.known())
		}
	})
}

// TestBulkEndsWhere ends connections by the time when they were opened.
func TestBulkEndsWhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, c, _ := piped(t, nil)
		b[0].park(c)
		time.Sleep(time.Second)
		endBefore := func(at time.Time) {
			b[1].EndWhere(func(id peer.ID, _ netip.Addr, opened time.Time) bool {
				return id == b[0].id() && opened.Before(at)
			})
		}
		endBefore(time.Now().Add(-2 * time.Second))
		synctest.Wait()
		if b[1].known() != 1 {
			t.Error("a connection is ended that was opened since")
		}
		endBefore(time.Now())
		synctest.Wait()
		if b[1].known() != 0 {
			t.Error("a connection of before the move is kept")
		}
	})
}
