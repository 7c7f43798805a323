package peers

import (
	"time"

	"github.com/libp2p/go-libp2p/core/network"
)

// outrun is how old a connection may be that ends because another one of the same dial was there
// before it: a way there and back, and what a busy machine takes to answer.
const outrun = 3 * time.Second

// dropStale ends what is left of a peer's connections when its TCP connection ends. Two peers that
// dial each other at once, or over two transports, keep all connections that come about. A process
// that is killed resets its TCP connections at once, while a QUIC connection to it looks alive for
// 30 s: gossip and new streams would go there, even when the peer is back and has connected again.
// A peer that is alive connects again in a moment.
//
// One that is ended because this machine has lost its address says nothing of the others. Nor does
// one that has just come: a peer that dials over both transports, one a little later, keeps what is
// there first, and ends the other, which may be there for us by then.
func dropStale(moved func(network.Conn) bool) *network.NotifyBundle {
	return &network.NotifyBundle{DisconnectedF: func(n network.Network, c network.Conn) {
		if !OverTCP(c.RemoteMultiaddr()) || time.Since(c.Stat().Opened) < outrun || moved(c) {
			return
		}
		for _, other := range n.ConnsToPeer(c.RemotePeer()) {
			if !IsRelayed(other.RemoteMultiaddr()) && !OverTCP(other.RemoteMultiaddr()) {
				_ = other.Close() // it is gone in any case
			}
		}
	}}
}
