package bulk

import (
	"testing"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/multiformats/go-multiaddr"
)

// paperConn is a connection that is only written down.
type paperConn struct {
	network.Conn
	addr string
}

func (c *paperConn) RemoteMultiaddr() multiaddr.Multiaddr { return multiaddr.StringCast(c.addr) }
func (c *paperConn) Stat() network.ConnStats              { return network.ConnStats{} }

// TestNoBulkWhereARelayIsNeeded: the addresses of a peer that is reached through a relay are
// silent, and each stream would wait for that.
func TestNoBulkWhereARelayIsNeeded(t *testing.T) {
	const circuit = "/p2p/QmYyQSo1c1Ym7orWxLYvCrM2EmxFTANf8wXmmE7DWjhx5N/p2p-circuit"
	known := []multiaddr.Multiaddr{multiaddr.StringCast("/ip4/192.0.2.1/tcp/1")}
	for via, want := range map[string]int{
		"/ip4/198.51.100.1/tcp/1" + circuit: 0, "/ip4/198.51.100.1/udp/1/quic-v1": 1,
	} {
		if got := dialable([]network.Conn{&paperConn{addr: via}}, known); len(got) != want {
			t.Errorf("connected over %s, bulk connections to %v are tried, want %d", via, got, want)
		}
	}
}
