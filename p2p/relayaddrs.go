package p2p

import (
	"cmp"
	"slices"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/multiformats/go-multiaddr"
	manet "github.com/multiformats/go-multiaddr/net"
)

// throughRelay are the addresses of this peer through a relay: first the way that this peer took to it, then what the relay says of itself.
func (r *reservations) throughRelay(id peer.ID) (addrs []multiaddr.Multiaddr) {
	circuit, err := multiaddr.NewMultiaddr("/p2p/" + id.String() + "/p2p-circuit")
	if err != nil {
		return nil // an ID always makes an address
	}
	var taken []multiaddr.Multiaddr
	for _, c := range r.n.host.Network().ConnsToPeer(id) {
		if c.Stat().Direction == network.DirOutbound && !isRelayed(c.RemoteMultiaddr()) {
			taken = append(taken, c.RemoteMultiaddr())
		}
	}
	known := slices.DeleteFunc(slices.Clone(r.n.host.Peerstore().Addrs(id)), func(a multiaddr.Multiaddr) bool {
		return isRelayed(a) || manet.IsIPLoopback(a)
	})
	slices.SortFunc(known, func(a, b multiaddr.Multiaddr) int { return cmp.Or(preference(a)-preference(b), a.Compare(b)) })
	for _, a := range firstOf(maxRelayAddrs, taken, known) {
		addrs = append(addrs, a.Encapsulate(circuit))
	}
	return addrs
}

// preference is less for addresses that more peers can dial.
func preference(a multiaddr.Multiaddr) int {
	if manet.IsPublicAddr(a) {
		return 0
	}
	return 1
}

// isRelayed says whether an address leads through a relay.
func isRelayed(a multiaddr.Multiaddr) bool {
	_, err := a.ValueForProtocol(multiaddr.P_CIRCUIT)
	return err == nil
}

// connectedDirectly says whether there is a connection to a peer that goes through no relay.
func (n *Network) connectedDirectly(id peer.ID) bool {
	return slices.ContainsFunc(n.host.Network().ConnsToPeer(id), func(c network.Conn) bool {
		return !c.IsClosed() && !isRelayed(c.RemoteMultiaddr())
	})
}

// stillOn says whether a certain connection to a peer is still there.
func (n *Network) stillOn(id peer.ID, conn string) bool {
	return slices.ContainsFunc(n.host.Network().ConnsToPeer(id), func(c network.Conn) bool { return c.ID() == conn && !c.IsClosed() })
}
