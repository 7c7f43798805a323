package p2p

import (
	"net"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/quic-go/quic-go"

	"github.com/p2pdiloco/p2pdiloco/p2p/internal/liveness"
	"github.com/p2pdiloco/p2pdiloco/p2p/internal/tcpnet"
)

// connsOfMembers are all connections to members: libp2p's (network.Conn) and those for bulk
// (net.Conn).
func (n *Network) connsOfMembers() map[peer.ID][]any {
	all := make(map[peer.ID][]any)
	for _, id := range n.env.Members.List() {
		for _, c := range n.env.Host.Network().ConnsToPeer(id) {
			all[id] = append(all[id], c)
		}
	}
	n.bulk.Each(func(id peer.ID, c net.Conn) { all[id] = append(all[id], c) })
	return all
}

// acks is what tells what was acknowledged on a connection; nil if nothing does.
func (n *Network) acks(c any) func() liveness.Acks {
	switch c := c.(type) {
	case net.Conn:
		return tcpnet.Acks(c)
	case network.Conn:
		var q *quic.Conn
		if c.As(&q) {
			return quicAcks(q)
		}
		return n.sockets.Acks(c)
	}
	return nil
}

// quicAcks takes any packet for an acknowledgement: where the other side sends, it hears. What is
// sent while nothing comes is to be acknowledged, but for the first packet, which may acknowledge
// what came before, or find out how large packets may be.
func quicAcks(q *quic.Conn) func() liveness.Acks {
	var came, sent uint64
	return func() liveness.Acks {
		now := q.ConnectionStats()
		if now.PacketsReceived != came {
			came, sent = now.PacketsReceived, now.PacketsSent
		}
		return liveness.Acks{
			Count: came, Came: came, Waiting: now.PacketsSent > sent+1, Trip: now.SmoothedRTT, Program: true,
		}
	}
}
