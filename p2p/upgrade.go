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
// one has replaced. Holes are punched by libp2p when a relayed connection is new. What fails then, and what comes later, a port that was mapped,
// another network, is found by punching and dialling now and then.
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

// dialDirectly tries to have direct connections to those that are reached through a relay: to members, and to who greeted this peer and will be one. Who
// took a relayed connection punches; who opened it dials, if it knows an address.
func (n *Network) dialDirectly(tries map[peer.ID]reserveTry, now time.Time) {
	for id := range tries {
		if !n.wantedDirectly(id, now) {
			delete(tries, id)
		}
	}
	for _, id := range n.host.Network().Peers() {
		if now.Before(tries[id].after) || !n.wantedDirectly(id, now) || !n.tryDirectly(id) {
			continue
		}
		pause := min(max(2*tries[id].pause, upgradeRetryMin), upgradeRetryMax)
		tries[id] = reserveTry{now.Add(pause), pause}
	}
}

func (n *Network) wantedDirectly(id peer.ID, now time.Time) bool {
	return n.host.Network().Connectedness(id) != network.NotConnected && !n.connectedDirectly(id) &&
		(n.isProtected(id) || n.greeted.has(id, now))
}

// tryDirectly begins one try, and says whether there was a way to.
func (n *Network) tryDirectly(id peer.ID) bool {
	for _, c := range n.host.Network().ConnsToPeer(id) {
		if c.Stat().Direction == network.DirInbound && isRelayed(c.RemoteMultiaddr()) && n.holes.again(c, n.host.Network()) {
			return true
		}
	}
	return slices.ContainsFunc(n.host.Peerstore().Addrs(id), func(a multiaddr.Multiaddr) bool { return !isRelayed(a) }) &&
		n.goDo(func() { n.dialDirect(id) })
}

func (n *Network) dialDirect(id peer.ID) {
	ctx, cancel := context.WithTimeout(n.ctx, upgradeTimeout)
	defer cancel()
	if err := n.host.Connect(network.WithForceDirectDial(ctx, "a better way"), peer.AddrInfo{ID: id}); err != nil {
		n.log.Debug("a peer that is reached through a relay cannot be reached directly", "peer", id, "err", err)
	}
}
