package p2p

import (
	"context"
	"slices"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/multiformats/go-multiaddr"
)

const (
	upgradeLook     = 2 * time.Second  // between looks at the members' ways
	upgradeTimeout  = 10 * time.Second // for direct dials to one member
	upgradeRetryMin = 5 * time.Second  // between tries of one member
	upgradeRetryMax = 5 * time.Minute
	// relayedLinger is how long a relayed connection stays for streams that go on over it once there is a direct one, relayedIdle how long for
	// those that can be opened again at no loss.
	relayedLinger = 10 * time.Minute
	relayedIdle   = 3 * time.Second
)

// upgrades has members that are reached through a relay reached directly as soon as that can be, and ends relayed connections that a better
// one has replaced. Holes are punched by libp2p when a relayed connection is new; what comes later, a port that was mapped, another network,
// is found by dialling now and then.
func (n *Network) upgrades() {
	tries := make(map[peer.ID]reserveTry)
	better := make(map[string]time.Time) // relayed connections that were replaced, since when
	tick := time.NewTicker(upgradeLook)
	defer tick.Stop()
	for {
		select {
		case <-n.ctx.Done():
			return
		case <-tick.C:
		}
		n.endReplaced(better, time.Now())
		n.dialDirectly(tries, time.Now())
	}
}

// endReplaced closes relayed connections beside direct ones when their streams have ended.
func (n *Network) endReplaced(since map[string]time.Time, now time.Time) {
	seen := make(map[string]bool)
	for _, c := range n.host.Network().Conns() {
		if !isRelayed(c.RemoteMultiaddr()) || !n.connectedDirectly(c.RemotePeer()) {
			continue
		}
		seen[c.ID()] = true
		if _, known := since[c.ID()]; !known {
			since[c.ID()] = now
		}
		if age := now.Sub(since[c.ID()]); age > relayedLinger || age > relayedIdle && !slices.ContainsFunc(c.GetStreams(), mustEnd) {
			n.log.Debug("ending a relayed connection: there is a direct one", "peer", c.RemotePeer())
			n.goDo(func() { _ = c.Close() }) // it is gone in any case
		}
	}
	for id := range since {
		if !seen[id] {
			delete(since, id)
		}
	}
}

// mustEnd says whether a stream is of those that cannot be opened again in the middle. Others stay open for as long as a connection lasts.
func mustEnd(s network.Stream) bool {
	p := purposeOf(s.Protocol())
	return p == exchange || p == state || s.Protocol() == ProtocolHello
}

// dialDirectly tries the direct addresses of members that are reached through a relay.
func (n *Network) dialDirectly(tries map[peer.ID]reserveTry, now time.Time) {
	for id := range tries {
		if !n.isProtected(id) || n.connectedDirectly(id) {
			delete(tries, id)
		}
	}
	for _, id := range n.protectedPeers() {
		if n.host.Network().Connectedness(id) == network.NotConnected || n.connectedDirectly(id) || now.Before(tries[id].after) {
			continue
		}
		if !slices.ContainsFunc(n.host.Peerstore().Addrs(id), func(a multiaddr.Multiaddr) bool { return !isRelayed(a) }) {
			continue
		}
		pause := min(max(2*tries[id].pause, upgradeRetryMin), upgradeRetryMax)
		tries[id] = reserveTry{now.Add(pause), pause}
		n.goDo(func() { n.dialDirect(id) })
	}
}

func (n *Network) dialDirect(id peer.ID) {
	ctx, cancel := context.WithTimeout(n.ctx, upgradeTimeout)
	defer cancel()
	if err := n.host.Connect(network.WithForceDirectDial(ctx, "a better way"), peer.AddrInfo{ID: id}); err != nil {
		n.log.Debug("a peer that is reached through a relay cannot be reached directly", "peer", id, "err", err)
	}
}
