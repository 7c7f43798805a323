package peers

import (
	"slices"

	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"

	"github.com/p2pdiloco/p2pdiloco/p2p/internal/addr"
)

// ConnectedDirectly says whether there is a connection to a peer that goes through no relay.
func ConnectedDirectly(on network.Network, id peer.ID) bool {
	return slices.ContainsFunc(on.ConnsToPeer(id), func(c network.Conn) bool {
		return !c.IsClosed() && !addr.IsRelayed(c.RemoteMultiaddr())
	})
}

// BestConn is the connection to a peer that new streams take: direct before relayed, relayed before
// limited.
func BestConn(on network.Network, id peer.ID) (best network.Conn, ok bool) {
	for _, c := range on.ConnsToPeer(id) {
		if !c.IsClosed() && (best == nil || wayRank(c) < wayRank(best)) {
			best = c
		}
	}
	return best, best != nil
}

func wayRank(c network.Conn) int {
	switch {
	case c.Stat().Limited:
		return 2
	case addr.IsRelayed(c.RemoteMultiaddr()):
		return 1
	}
	return 0
}

// Speaks says whether a peer has reported that it speaks a protocol.
func Speaks(h host.Host, id peer.ID, proto protocol.ID) bool {
	known, err := h.Peerstore().SupportsProtocols(id, proto)
	return err == nil && slices.Contains(known, proto)
}
