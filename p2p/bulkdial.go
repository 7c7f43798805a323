package p2p

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/multiformats/go-multiaddr"
	manet "github.com/multiformats/go-multiaddr/net"
)

// maxBulkAddrs is how many of a peer's addresses are tried for a bulk connection.
const maxBulkAddrs = 4

// dial tries the peer's TCP addresses, one after the other.
func (b *bulk) dial(ctx context.Context, to peer.ID) (*bulkConn, error) {
	addrs := b.addrs(to)
	if len(addrs) == 0 {
		return nil, errNoBulkAddr
	}
	var errs []error
	for _, a := range addrs {
		c, err := b.dialAddr(ctx, to, a)
		if err == nil {
			return c, nil
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		errs = append(errs, fmt.Errorf("%s: %w", a, err))
	}
	return nil, errors.Join(errs...)
}

func (b *bulk) dialAddr(ctx context.Context, to peer.ID, a multiaddr.Multiaddr) (*bulkConn, error) {
	scope, err := b.n.host.Network().ResourceManager().OpenConnection(network.DirOutbound, true, a)
	if err != nil {
		return nil, err
	}
	c, err := b.dialScoped(ctx, to, a, scope)
	if err != nil {
		scope.Done()
		return nil, err
	}
	return c, nil
}

func (b *bulk) dialScoped(ctx context.Context, to peer.ID, a multiaddr.Multiaddr, scope network.ConnManagementScope) (*bulkConn, error) {
	if err := scope.SetPeer(to); err != nil {
		return nil, err
	}
	dialing, cancel := context.WithTimeout(ctx, bulkDial)
	defer cancel()
	raw, err := new(manet.Dialer).DialContext(dialing, a)
	if err != nil {
		return nil, err
	}
	prepareTCP(raw)
	shaking, cancel := context.WithTimeout(ctx, bulkHandshake)
	defer cancel()
	leave, err := b.enter(raw)
	if err != nil {
		_ = raw.Close()
		return nil, err
	}
	defer leave()
	c, err := b.handshake(shaking, raw, to, scope)
	if err == nil {
		_, err = c.expect(bulkReady, time.Now().Add(bulkHandshake))
	}
	if err != nil {
		_ = raw.Close() // it may be closed already
		return nil, err
	}
	return c, nil
}

// addrs are those that are likely to answer: first the ones to which there are connections, then the peer's others, those of the same
// machines first. Of a peer that is reached through a relay there are none: its addresses are tried for libp2p's connection now and then, and each
// stream would wait for their silence here.
func (b *bulk) addrs(id peer.ID) []multiaddr.Multiaddr {
	var best, good, rest []multiaddr.Multiaddr
	hosts := make(map[netip.Addr]bool)
	for _, c := range b.n.host.Network().ConnsToPeer(id) {
		a := c.RemoteMultiaddr()
		if isRelayed(a) {
			continue
		}
		hosts[ipOf(a)] = true
		if isPlainTCP(a) && c.Stat().Direction == network.DirOutbound {
			best = append(best, a)
		}
	}
	if len(hosts) == 0 {
		return nil
	}
	for _, a := range b.n.host.Peerstore().Addrs(id) {
		switch {
		case !isPlainTCP(a):
		case hosts[ipOf(a)]:
			good = append(good, a)
		default:
			rest = append(rest, a)
		}
	}
	return firstOf(maxBulkAddrs, best, good, rest)
}

// firstOf are the first n different addresses of some lists.
func firstOf(n int, lists ...[]multiaddr.Multiaddr) (addrs []multiaddr.Multiaddr) {
	for _, a := range slices.Concat(lists...) {
		if len(addrs) < n && !slices.ContainsFunc(addrs, a.Equal) {
			addrs = append(addrs, a)
		}
	}
	return addrs
}

// isPlainTCP says whether an address is an IP address and a TCP port, and nothing else.
func isPlainTCP(a multiaddr.Multiaddr) bool {
	p := a.Protocols()
	return len(p) == 2 && (p[0].Code == multiaddr.P_IP4 || p[0].Code == multiaddr.P_IP6) && p[1].Code == multiaddr.P_TCP
}

// ipOf is the IP address in a; the zero value if there is none.
func ipOf(a multiaddr.Multiaddr) netip.Addr {
	ip, err := manet.ToIP(a)
	if err != nil {
		return netip.Addr{}
	}
	addr, _ := netip.AddrFromSlice(ip)
	return addr.Unmap()
}
