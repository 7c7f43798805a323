package p2p

import (
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/multiformats/go-multiaddr"
)

// dropStale ends what is left of a peer's connections when its TCP connection ends. Two peers that dial each other at once, or over
// two transports, keep all connections that come about. A process that is killed resets its TCP connections at once, while a QUIC
// connection to it looks alive for 30 s: gossip and new streams would go there, even when the peer is back and has connected
// again. Who is alive connects again in a moment. One that is ended because a machine has moved says nothing of the others.
func dropStale(moved func(network.Conn) bool) *network.NotifyBundle {
	return &network.NotifyBundle{DisconnectedF: func(n network.Network, c network.Conn) {
		if !overTCP(c.RemoteMultiaddr()) || moved(c) {
			return
		}
		for _, other := range n.ConnsToPeer(c.RemotePeer()) {
			if !isRelayed(other.RemoteMultiaddr()) && !overTCP(other.RemoteMultiaddr()) {
				_ = other.Close() // it is gone in any case
			}
		}
	}}
}

// overTCP says whether an address is one of TCP, without a relay.
func overTCP(a multiaddr.Multiaddr) bool {
	_, err := a.ValueForProtocol(multiaddr.P_TCP)
	return err == nil && !isRelayed(a)
}
