package nat

import (
	"cmp"
	"slices"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/multiformats/go-multiaddr"
	manet "github.com/multiformats/go-multiaddr/net"

	"github.com/p2pdiloco/p2pdiloco/p2p/internal/addr"
)

// throughRelay are the addresses of this peer through a relay: first the way that this peer took to
// it, then what the relay says of itself.
func (r *Reservations) throughRelay(id peer.ID) (addrs []multiaddr.Multiaddr) {
	circuit, err := multiaddr.NewMultiaddr("/p2p/" + id.String() + "/p2p-circuit")
	if err != nil {
		return nil // an ID always makes an address
	}
	var taken []multiaddr.Multiaddr
	for _, c := range r.env.Host.Network().ConnsToPeer(id) {
		if c.Stat().Direction == network.DirOutbound && !addr.IsRelayed(c.RemoteMultiaddr()) {
			taken = append(taken, c.RemoteMultiaddr())
		}
	}
	known := slices.DeleteFunc(slices.Clone(r.env.Host.Peerstore().Addrs(id)), func(a multiaddr.Multiaddr) bool {
		return addr.IsRelayed(a) || manet.IsIPLoopback(a)
	})
	slices.SortFunc(known, func(a, b multiaddr.Multiaddr) int {
		return cmp.Or(preference(a)-preference(b),
			a.Compare(b))
	})
	for _, a := range addr.First(maxRelayAddrs, taken, known) {
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

// stillOn says whether a certain connection to a peer is still there.
func stillOn(on network.Network, id peer.ID, conn string) bool {
	return slices.ContainsFunc(on.ConnsToPeer(id),
		func(c network.Conn) bool { return c.ID() == conn && !c.IsClosed() })
}
