package peers

import (
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/multiformats/go-multiaddr"
)

// paperConn is a connection that is only written down.
type paperConn struct {
	network.Conn
	peer            peer.ID
	addr            string
	age             time.Duration
	dialled, closed bool
}

func (c *paperConn) RemotePeer() peer.ID                  { return c.peer }
func (c *paperConn) RemoteMultiaddr() multiaddr.Multiaddr { return multiaddr.StringCast(c.addr) }
func (c *paperConn) Stat() network.ConnStats {
	direction := network.DirInbound
	if c.dialled {
		direction = network.DirOutbound
	}
	return network.ConnStats{Stats: network.Stats{Opened: time.Now().Add(-c.age), Direction: direction}}
}
func (c *paperConn) Close() error { c.closed = true; return nil }

type paperNetwork struct {
	network.Network
	conns []network.Conn
}

func (n paperNetwork) ConnsToPeer(peer.ID) []network.Conn { return n.conns }

type paperHost struct {
	host.Host
	net paperNetwork
}

func (h paperHost) Network() network.Network { return h.net }

// TestNothingIsLeftOfADeadPeer: when its TCP connection ends, a QUIC connection to a peer that was
// killed would look alive for long.
func TestNothingIsLeftOfADeadPeer(t *testing.T) {
	const tcp, quic = "/ip4/127.0.0.1/tcp/1", "/ip4/127.0.0.1/udp/1/quic-v1"
	const circuit = "/p2p/QmYyQSo1c1Ym7orWxLYvCrM2EmxFTANf8wXmmE7DWjhx5N/p2p-circuit"
	for _, c := range []struct {
		name  string
		ended paperConn
		moved bool    // it ends because a machine has moved
		want  [3]bool // whether these end with it: another over TCP, QUIC, a relayed one
	}{
		{"TCP", paperConn{addr: tcp, age: time.Minute}, false, [3]bool{false, true, false}},
		{"TCP, outrun by QUIC,", paperConn{addr: tcp, age: outrun / 2}, false, [3]bool{}},
		{"TCP, for a move,", paperConn{addr: tcp, age: time.Minute}, true, [3]bool{}},
		{"QUIC", paperConn{addr: quic, age: time.Minute}, false, [3]bool{}},
		{"a relay's TCP", paperConn{addr: tcp + circuit, age: time.Minute}, false, [3]bool{}},
	} {
		left := []*paperConn{{addr: tcp}, {addr: quic}, {addr: quic + circuit}}
		dropStale(func(network.Conn) bool { return c.moved }).Disconnected(paperNetwork{conns: []network.Conn{
			left[0],
			left[1], left[2],
		}}, &c.ended)
		for i, want := range c.want {
			if left[i].closed != want {
				t.Errorf("%s ended: %s closed is %v", c.name, left[i].addr, left[i].closed)
			}
		}
	}
}
