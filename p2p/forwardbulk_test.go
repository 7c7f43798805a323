package p2p

import (
	"bytes"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/wire"
	"github.com/p2pdiloco/p2pdiloco/p2p/internal/bulk"
)

// threesome are members that listen on TCP, so that what the second forwards goes over bulk
// connections. The first opens streams to the third through it.
func threesome(t *testing.T) (origin, via, target *Network) {
	t.Helper()
	origin, via = tcpPair(t, nil)
	cfg := LAN()
	cfg.Listen = []string{"/ip4/127.0.0.1/tcp/0"}
	target = loopback(t, cfg)
	acquaint(via, target)
	ids := []slot.PeerID{origin.ID(), via.ID(), target.ID()}
	for _, n := range []*Network{origin, via, target} {
		n.Protect(ids)
		n.SetReaches(func() map[slot.PeerID][]slot.PeerID { return map[slot.PeerID][]slot.PeerID{ids[1]: ids} })
	}
	for _, n := range []*Network{origin, target} {
		if err := via.env.Dialer.Connect(bounded(t), peer.AddrInfo{ID: peer.ID(n.ID())}); err != nil {
			t.Fatal(err)
		}
		leg, err := via.openLeg(bounded(t), peer.ID(n.ID()))
		if _, isBulk := leg.(*bulk.Stream); err != nil || !isBulk {
			t.Fatalf("a leg of type %T: %v", leg, err)
		}
		_ = leg.Reset()
	}
	return origin, via, target
}

// outbound is how many connections there are that a peer has dialled to another: libp2p's, and
// those for much data.
func (n *Network) outbound(t *testing.T, to *Network) (conns int) {
	t.Helper()
	err := n.env.Host.Network().ResourceManager().ViewPeer(peer.ID(to.ID()), func(s network.PeerScope) error {
		conns = s.Stat().NumConnsOutbound
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return conns
}

// through opens a forwarded stream.
func through(t *testing.T, origin, target *Network) wire.Stream {
	t.Helper()
	s, err := origin.hops.Open(bounded(t), peer.ID(target.ID()), ProtocolExchange)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestAForwardedStreamEndsHalfByHalf: each side says that it has sent all, under the deadline that
// it has set, and the other one gets all. Without that every exchange through a member fails at its
// end, and what is on its way is lost with the connection.
func TestAForwardedStreamEndsHalfByHalf(t *testing.T) {
	origin, _, target := threesome(t)
	ended := make(chan error, 1)
	target.Handle(ProtocolExchange, func(_ slot.PeerID, s wire.Stream) {
		b, err := io.ReadAll(s)
		if err == nil {
			_ = s.SetWriteDeadline(time.Now().Add(30 * time.Second))
			_, err = s.Write(b)
		}
		ended <- errors.Join(err, s.CloseWrite())
	})
	for name, deadline := range map[string]time.Time{"in time": time.Now().Add(time.Minute), "without a deadline": {}} {
		s := through(t, origin, target)
		_ = s.SetDeadline(deadline)
		if _, err := s.Write(vector()); err != nil {
			t.Fatal(err)
		}
		if err := s.CloseWrite(); err != nil {
			t.Errorf("%s: the origin's end: %v", name, err)
		}
		if b, err := io.ReadAll(s); err != nil || !bytes.Equal(b, vector()) {
			t.Errorf("%s: %d bytes of %d came back: %v", name, len(b), len(vector()), err)
		}
		if err := <-ended; err != nil {
			t.Errorf("%s: the target's end: %v", name, err)
		}
		if err := s.Close(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestAForwardedStreamIsClosedAfterItsDeadline: whoever gave up writing may still close, which has
// a time of its own.
func TestAForwardedStreamIsClosedAfterItsDeadline(t *testing.T) {
	origin, _, target := threesome(t)
	ended := make(chan error, 1)
	target.Handle(ProtocolExchange, func(_ slot.PeerID, s wire.Stream) {
		_, err := io.ReadAll(s)
		ended <- err
	})
	s := through(t, origin, target)
	_ = s.SetWriteDeadline(time.Now())
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if err := <-ended; err != nil {
		t.Errorf("the target's end: %v", err)
	}
}
