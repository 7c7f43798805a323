package discovery

import (
	"cmp"
	"net/netip"
	"slices"

	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/multiformats/go-multiaddr"

	"github.com/p2pdiloco/p2pdiloco/p2p/internal/peers"
)

// addrsOf are a peer's addresses as the host knows them, as many as the file has of one. A machine
// may have dozens, most of them of no use elsewhere: those of its containers, say. First are those
// with the IP address of a connection that there is, then public ones, names, ways through relays,
// those of local networks, and loopback.
func (b *addressBook) addrsOf(id peer.ID) []multiaddr.Multiaddr {
	inUse := make(map[netip.Addr]bool)
	for _, c := range b.env.Host.Network().ConnsToPeer(id) {
		if ip := peers.IP(c.RemoteMultiaddr()); ip.IsValid() && !peers.IsRelayed(c.RemoteMultiaddr()) {
			inUse[ip] = true
		}
	}
	return bestAddrs(b.env.Host.Peerstore().Addrs(id), inUse)
}

// bestAddrs are the maxPeerAddrs addresses by which a peer is most likely to be found again.
func bestAddrs(addrs []multiaddr.Multiaddr, inUse map[netip.Addr]bool) []multiaddr.Multiaddr {
	worth := func(a multiaddr.Multiaddr) int {
		rank := addrRank(a)
		switch isName := !peers.IP(a).IsValid(); {
		case inUse[peers.IP(a)] && !peers.IsRelayed(a):
			return -1
		case rank == rankPublic && !isName:
			return 0
		case rank == rankPublic:
			return 1
		}
		return 1 + rank
	}
	sorted := slices.SortedFunc(slices.Values(addrs), func(x, y multiaddr.Multiaddr) int {
		return cmp.Or(worth(x)-worth(y), x.Compare(y))
	})
	return sorted[:min(len(sorted), maxPeerAddrs)]
}
