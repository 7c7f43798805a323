package nat

import (
	"errors"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/multiformats/go-multiaddr"

	"github.com/p2pdiloco/p2pdiloco/p2p/internal/limits"
	"github.com/p2pdiloco/p2pdiloco/p2p/internal/tasks"
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
		r := &Relay{allowed: limits.NewAllowances(0, 1000, 0)}
		r.env.Tasks = tasks.NewGroup(t.Context())
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
