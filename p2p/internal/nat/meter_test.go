package nat

import (
	"errors"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/connmgr"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/multiformats/go-multiaddr"

	"github.com/p2pdiloco/p2pdiloco/p2p/internal/limits"
	"github.com/p2pdiloco/p2pdiloco/p2p/internal/peers"
)

// paperConn is a connection that is only written down.
type paperConn struct {
	network.Conn
	peer   peer.ID
	addr   string
	age    time.Duration
	closed bool
}

func (c *paperConn) RemotePeer() peer.ID                  { return c.peer }
func (c *paperConn) RemoteMultiaddr() multiaddr.Multiaddr { return multiaddr.StringCast(c.addr) }
func (c *paperConn) Stat() network.ConnStats {
	return network.ConnStats{Stats: network.Stats{Opened: time.Now().Add(-c.age)}}
}
func (c *paperConn) Close() error { c.closed = true; return nil }

// paperStream is a stream on a paperConn.
type paperStream struct {
	network.Stream
	conn paperConn
}

func (s *paperStream) Conn() network.Conn { return &s.conn }
func (s *paperStream) Reset() error       { return nil }

// TestRelayTurnsAreGivenBack: the turn of a stream that ends while it waits is another's.
func TestRelayTurnsAreGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &Relay{rate: limits.NewBucket(1000), guestRate: limits.NewBucket(500)}
		r.env.Tasks, r.env.Members = peers.NewGroup(t.Context()), peers.NewMembers(&connmgr.NullConnMgr{})
		opened := func() *meteredStream {
			return r.meter(&paperStream{conn: paperConn{addr: "/ip4/203.0.113.1/tcp/1"}}, true)
		}
		if err := opened().pass(5000); err != nil {
			t.Fatal(err)
		}
		waiting, ended := opened(), make(chan error)
		go func() { ended <- waiting.pass(5000) }()
		time.Sleep(time.Second)
		waiting.end()
		if err := <-ended; !errors.Is(err, net.ErrClosed) {
			t.Errorf("the stream that ended: %v", err)
		}
		began := time.Now()
		if err := opened().pass(1000); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took > 4*time.Second {
			t.Errorf("the next waited %s, want what is left of 5 s", took)
		}
	})
}

// TestStrangersDoNotHoldUpMembers: strangers that have all relayed that the rate allows, and more,
// are refused when they wait for too long; the streams of members do not wait behind them, nor end.
func TestStrangersDoNotHoldUpMembers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const total = 100_000
		r := &Relay{rate: limits.NewBucket(total), guestRate: limits.NewBucket(total / 2)}
		r.env.Tasks, r.env.Members = peers.NewGroup(t.Context()), peers.NewMembers(&connmgr.NullConnMgr{})
		r.env.Members.Set(map[peer.ID]struct{}{"member": {}})
		opened := func(id peer.ID) *meteredStream {
			return r.meter(&paperStream{conn: paperConn{peer: id, addr: "/ip4/203.0.113.1/tcp/1"}}, true)
		}
		var flood sync.WaitGroup
		var refused atomic.Int32
		for range 400 {
			flood.Go(func() {
				s := opened("stranger")
				defer s.end()
				for end := time.Now().Add(time.Minute); time.Now().Before(end); {
					if s.pass(meterShare) != nil {
						refused.Add(1)
						return
					}
				}
			})
		}
		time.Sleep(15 * time.Second)
		member, began := opened("member"), time.Now()
		defer member.end()
		const bytes = 40 * meterShare
		for range bytes / meterShare {
			if err := member.pass(meterShare); err != nil {
				t.Fatalf("a member's stream ends: %v", err)
			}
		}
		if took, want := time.Since(began), 2*bytes*time.Second/total; took > want+2*time.Second {
			t.Errorf("a member's %d bytes took %s, at half of the rate they take %s", bytes, took, want)
		}
		if n := refused.Load(); n == 0 {
			t.Error("no stranger is refused")
		}
		flood.Wait()
	})
}

// TestStrangersHaveFewCircuits: a stranger opens few connections through a member, and strangers
// have few to one of them, and half of those to a member. Members, and all where a relay knows of
// no members, have more. Strangers that connect to a newcomer cut it off from no member: each of
// two could be within its share, and the newcomer beyond.
func TestStrangersHaveFewCircuits(t *testing.T) {
	r := newRelay(Env{}, Config{Relay: RelayConfig{Open: true}.WithDefaults()})
	r.env.Tasks, r.env.Members = peers.NewGroup(t.Context()), peers.NewMembers(&connmgr.NullConnMgr{})
	r.env.Log = slog.New(slog.DiscardHandler)
	from := multiaddr.StringCast("/ip4/203.0.113.1/tcp/1")
	var streams []*meteredStream
	open := func(id peer.ID, reached bool, circuits int) {
		for range circuits {
			streams = append(streams, r.meter(&paperStream{conn: paperConn{peer: id}}, reached))
		}
	}
	open("member", false, guestCircuits+1)
	open("stranger", false, guestCircuits+1)
	open("newcomer", true, guestCircuits+1)
	open("member", true, relayCircuits/2)
	if !r.AllowConnect("stranger", from, "other") || !r.AllowConnect("other", from, "newcomer") {
		t.Error("a relay without members has guests")
	}
	r.env.Members.Set(map[peer.ID]struct{}{"member": {}, "second": {}})
	for _, c := range []struct {
		src, to peer.ID
		want    bool
	}{
		{"stranger", "second", false},
		{"other", "newcomer", false},
		{"other", "member", false},
		{"other", "second", true},
		{"other", "stranger", true},
		{"newcomer", "second", true},
		{"newcomer", "stranger", true},
		{"member", "newcomer", true},
		{"second", "member", true},
	} {
		if got := r.AllowConnect(c.src, from, c.to); got != c.want {
			t.Errorf("%s to %s: %v", c.src, c.to, got)
		}
	}
	for _, s := range streams {
		_ = s.Reset()
		_ = s.Reset()
	}
	if !r.AllowConnect("stranger", from, "newcomer") || len(r.opened.mu.of)+len(r.reached.mu.of) > 0 {
		t.Errorf("connections that ended count: %v, %v", r.opened.mu.of, r.reached.mu.of)
	}
}
