package nat

import (
	"context"
	"slices"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/multiformats/go-multiaddr"

	"github.com/p2pdiloco/p2pdiloco/p2p/internal/peers"
)

const (
	upgradeLook     = 2 * time.Second  // between looks at the members' ways
	upgradeTimeout  = 10 * time.Second // for direct dials to one member
	upgradeRetryMin = 5 * time.Second  // between tries of one member
	upgradeRetryMax = 5 * time.Minute
	// relayedLinger is how long a relayed connection stays for streams that go on over it once
	// there is a direct one, relayedIdle how long for those that can be opened again at no loss.
	relayedLinger = 10 * time.Minute
	relayedIdle   = 3 * time.Second
	// sameDial is how much later a relayed connection may come that was begun with a direct one.
	sameDial = 3 * time.Second
)

// upgrades has members that are reached through a relay reached directly as soon as that can be,
// and ends relayed connections that a better one has replaced. Holes are punched by libp2p when a
// relayed connection is new. Other ways come later: a port that was mapped, another network, a
// punch that succeeds where an earlier one failed. So it punches and dials now and then.
type upgrades struct {
	env    Env
	holes  *Holes
	tries  map[peer.ID]reserveTry
	better map[string]time.Time // relayed connections that were replaced, since when
}

// givenUp ends direct connections that the other side has given up: it comes through a relay, which
// nobody does who is connected. Where packets of the two are dropped on the way one side finds that
// out first, and here the old connection would look alive for a minute.
func (u *upgrades) givenUp(nw network.Network, c network.Conn) {
	if c.Stat().Direction != network.DirInbound || !peers.IsRelayed(c.RemoteMultiaddr()) {
		return
	}
	for _, old := range nw.ConnsToPeer(c.RemotePeer()) {
		if !peers.IsRelayed(old.RemoteMultiaddr()) && c.Stat().Opened.Sub(old.Stat().Opened) > sameDial {
			u.env.Tasks.Go(func() { _ = old.Close() }) // it is gone in any case
		}
	}
}

func (u *upgrades) run() {
	u.env.Notify(&network.NotifyBundle{ConnectedF: u.givenUp})
	u.env.Tasks.Every(upgradeLook, func(now time.Time) {
		u.endReplaced(now)
		u.dialDirectly(now)
	})
}

// endReplaced closes relayed connections beside direct ones when their streams have ended.
func (u *upgrades) endReplaced(now time.Time) {
	seen := make(map[string]bool)
	for _, c := range u.env.Host.Network().Conns() {
		if !peers.IsRelayed(c.RemoteMultiaddr()) || !u.env.ConnectedDirectly(c.RemotePeer()) {
			continue
		}
		seen[c.ID()] = true
		if _, known := u.better[c.ID()]; !known {
			u.better[c.ID()] = now
		}
		if age := now.Sub(u.better[c.ID()]); age > relayedLinger || age > relayedIdle &&
			!slices.ContainsFunc(c.GetStreams(), u.mustEnd) {
			u.env.Log.Debug("ending a relayed connection: there is a direct one", "peer", c.RemotePeer())
			u.env.Tasks.Go(func() { _ = c.Close() }) // it is gone in any case
		}
	}
	for id := range u.better {
		if !seen[id] {
			delete(u.better, id)
		}
	}
}

// dialDirectly tries to have direct connections to those that are reached through a relay: to
// members, and to peers that greeted this one and will be members. The side that took a relayed
// connection punches; the side that opened it dials, if it knows an address.
func (u *upgrades) dialDirectly(now time.Time) {
	for id := range u.tries {
		if !u.wantedDirectly(id, now) {
			delete(u.tries, id)
		}
	}
	for _, id := range u.env.Host.Network().Peers() {
		if now.Before(u.tries[id].after) || !u.wantedDirectly(id, now) || !u.tryDirectly(id) {
			continue
		}
		pause := min(max(2*u.tries[id].pause, upgradeRetryMin), upgradeRetryMax)
		u.tries[id] = reserveTry{now.Add(pause), pause}
	}
}

func (u *upgrades) wantedDirectly(id peer.ID, now time.Time) bool {
	return u.env.Host.Network().Connectedness(id) != network.NotConnected &&
		!u.env.ConnectedDirectly(id) &&
		(u.env.Members.Has(id) || u.env.Greeted.Has(id, now))
}

// tryDirectly begins one try, and says whether there was a way to.
func (u *upgrades) tryDirectly(id peer.ID) bool {
	for _, c := range u.env.Host.Network().ConnsToPeer(id) {
		if c.Stat().Direction == network.DirInbound && peers.IsRelayed(c.RemoteMultiaddr()) &&
			u.holes.again(c, u.env.Host.Network()) {
			return true
		}
	}
	return slices.ContainsFunc(u.env.Host.Peerstore().Addrs(id),
		func(a multiaddr.Multiaddr) bool { return !peers.IsRelayed(a) }) &&
		u.env.Tasks.Go(func() { u.dialDirect(id) })
}

func (u *upgrades) dialDirect(id peer.ID) {
	ctx, cancel := context.WithTimeout(u.env.Tasks.Context(), upgradeTimeout)
	defer cancel()
	if err := u.env.Host.Connect(network.WithForceDirectDial(ctx, "a better way"), peer.AddrInfo{ID: id}); err != nil {
		u.env.Log.Debug("a peer that is reached through a relay cannot be reached directly", "peer", id, "err", err)
	}
}

func (u *upgrades) mustEnd(s network.Stream) bool { return u.env.MustEnd(s.Protocol()) }
