package peers

import (
	"maps"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/multiformats/go-multiaddr"
	manet "github.com/multiformats/go-multiaddr/net"
)

const (
	lookEvery = 500 * time.Millisecond // between looks at this machine's addresses
	// members that are missing are dialled again and again for so long after the last change
	dialAgainFor = 30 * time.Second
	// after a change dials under way begin again: what was sent in between may be lost, and libp2p
	// would wait for 5 s
	dialStuck = 1500 * time.Millisecond
)

// BulkEnder ends the bulk connections that dead picks by peer, local address and time of opening.
type BulkEnder func(dead func(id peer.ID, local netip.Addr, opened time.Time) bool)

// AddressChanges notices that this machine has lost an address, as a laptop does that goes from one
// network to another. Nothing comes for that address any more, and its connections look alive all
// the same: the pulses of members show it after 12 s, those of relays later. So these connections
// are closed at once, and members are dialled again. A peer dials only where it has no connection:
// so the other end closes its older ones when the new one comes.
//
// An address that stays while the router's changes is not noticed here; pulses show that.
type AddressChanges struct {
	env     Env
	endBulk BulkEnder
	source  func(multiaddr.Multiaddr) netip.Addr // that this machine sends from to another address
	had     map[netip.Addr]bool
	via     map[string]netip.Addr // what connections send from whose socket has all addresses
	change  time.Time             // the last one
	again   bool                  // dials under way have begun again since
}

// NewAddressChanges watches connections that come and end. The caller runs it where the host is its
// own.
func NewAddressChanges(env Env, endBulk BulkEnder) *AddressChanges {
	ac := &AddressChanges{env: env, endBulk: endBulk, source: sourceTo, via: make(map[string]netip.Addr)}
	env.Notify(dropStale(func(c network.Conn) bool {
		have := localAddrs()
		return len(have) > 0 && !have[IP(c.LocalMultiaddr())]
	}))
	env.Notify(&network.NotifyBundle{ConnectedF: func(_ network.Network, c network.Conn) { ac.supersede(c) }})
	return ac
}

// supersede closes what a peer had before that has dialled this one. Two that dial each other at
// once, or over two transports, keep all.
func (ac *AddressChanges) supersede(by network.Conn) {
	id, before := by.RemotePeer(), by.Stat().Opened.Add(-outrun)
	if by.Stat().Direction != network.DirInbound || IsRelayed(by.RemoteMultiaddr()) {
		return
	}
	for _, c := range ac.env.Host.Network().ConnsToPeer(id) {
		if c.Stat().Opened.Before(before) && !IsRelayed(c.RemoteMultiaddr()) {
			ac.env.Tasks.Go(func() { _ = c.Close() }) // it is gone in any case
			ac.endBulk(func(of peer.ID, _ netip.Addr, opened time.Time) bool {
				return of == id && opened.Before(before)
			})
		}
	}
}

// Run looks at this machine's addresses until the task group ends.
func (ac *AddressChanges) Run() {
	ac.had = localAddrs() // nothing has changed yet: change is long ago
	ac.env.Tasks.Every(lookEvery, func(now time.Time) {
		// a loopback address is always there: else nothing is known
		if have := localAddrs(); len(have) > 0 {
			ac.look(have, now)
		}
	})
}

// look compares the addresses that this machine has now with those that it had.
func (ac *AddressChanges) look(have map[netip.Addr]bool, now time.Time) {
	gone := maps.Clone(ac.had)
	maps.DeleteFunc(gone, func(a netip.Addr, _ bool) bool { return have[a] })
	if !maps.Equal(ac.had, have) {
		ac.change, ac.again = now, false
	}
	ac.had = have
	if len(gone) > 0 {
		ac.leave(gone)
	}
	if since := now.Sub(ac.change); since < dialAgainFor {
		stuck := since >= dialStuck && !ac.again
		ac.again = ac.again || stuck
		ac.env.Dialer.Hurry(stuck || len(gone) > 0)
	}
	ac.noteSources()
}

// leave closes the connections of addresses that are gone. Those through relays end with the
// relays'.
func (ac *AddressChanges) leave(gone map[netip.Addr]bool) {
	ac.env.Log.Info("addresses of this machine are gone: connections from them are closed, and begun anew", "addrs",
		slices.Collect(maps.Keys(gone)))
	for _, c := range ac.env.Host.Network().Conns() {
		if gone[ac.sourceAddress(c)] {
			ac.env.Tasks.Go(func() { _ = c.Close() }) // it is gone in any case
		}
	}
	ac.endBulk(func(_ peer.ID, local netip.Addr, _ time.Time) bool { return gone[local] })
}

// noteSources remembers from which address connections send: after a move it cannot be asked any
// more.
func (ac *AddressChanges) noteSources() {
	via := make(map[string]netip.Addr)
	for _, c := range ac.env.Host.Network().Conns() {
		if IsRelayed(c.RemoteMultiaddr()) || !IP(c.LocalMultiaddr()).IsUnspecified() {
			continue
		}
		a, known := ac.via[c.ID()]
		if !known {
			a = ac.source(c.RemoteMultiaddr())
		}
		via[c.ID()] = a
	}
	ac.via = via
}

// sourceAddress is the address that a connection sends from; the zero value where it is not known.
func (ac *AddressChanges) sourceAddress(c network.Conn) netip.Addr {
	if a := IP(c.LocalMultiaddr()); !a.IsUnspecified() {
		return a
	}
	return ac.via[c.ID()]
}

// localAddrs are the addresses of this machine; nil if that cannot be had. It is asked for, twice a
// second: every system has it.
func localAddrs() map[netip.Addr]bool {
	all, err := net.InterfaceAddrs()
	if err != nil {
		return nil
	}
	have := make(map[netip.Addr]bool, len(all))
	for _, a := range all {
		have[OfNet(a)] = true
	}
	return have
}

// sourceTo is the address that this machine sends from to another one now. Nothing is sent.
func sourceTo(to multiaddr.Multiaddr) netip.Addr {
	a, err := manet.ToNetAddr(to)
	if err != nil {
		return netip.Addr{}
	}
	u, ok := a.(*net.UDPAddr)
	if !ok {
		return netip.Addr{}
	}
	c, err := net.DialUDP("udp", nil, u)
	if err != nil {
		return netip.Addr{}
	}
	defer c.Close() //nolint:errcheck // nothing was sent
	return OfNet(c.LocalAddr())
}

// outrun is how old a connection may be that ends because another one of the same dial was there
// before it: a way there and back, and what a busy machine takes to answer.
const outrun = 3 * time.Second

// dropStale ends what is left of a peer's connections when its TCP connection ends. Two peers that
// dial each other at once, or over two transports, keep all connections that come about. A process
// that is killed resets its TCP connections at once, while a QUIC connection to it looks alive for
// 30 s: gossip and new streams would go there, even when the peer is back and has connected again.
// A peer that is alive connects again in a moment.
//
// One that is ended because this machine has lost its address says nothing of the others. Nor does
// one that has just come: a peer that dials over both transports, one a little later, keeps what is
// there first, and ends the other, which may be there for us by then.
func dropStale(moved func(network.Conn) bool) *network.NotifyBundle {
	return &network.NotifyBundle{DisconnectedF: func(n network.Network, c network.Conn) {
		if !OverTCP(c.RemoteMultiaddr()) || time.Since(c.Stat().Opened) < outrun || moved(c) {
			return
		}
		for _, other := range n.ConnsToPeer(c.RemotePeer()) {
			if !IsRelayed(other.RemoteMultiaddr()) && !OverTCP(other.RemoteMultiaddr()) {
				_ = other.Close() // it is gone in any case
			}
		}
	}}
}
