package liveness

import (
	"encoding/binary"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/multiformats/go-multiaddr"

	"github.com/p2pdiloco/p2pdiloco/p2p/internal/addr"
	"github.com/p2pdiloco/p2pdiloco/p2p/internal/peers"
)

const (
	lookEvery = 500 * time.Millisecond // between looks at this machine's addresses
	// peers that were left are dialled again and again for so long after the last change
	dialAgainFor = 30 * time.Second
	// after a change dials under way begin again: what was sent in between may be lost, and libp2p
	// would wait for 5 s
	dialStuck = 1500 * time.Millisecond
	// that connections may have broken by themselves before a move is noticed: over QUIC a packet
	// that cannot leave does that
	breaksBefore = 2 * time.Second
)

// BulkEnder ends the bulk connections that dead picks by peer, local address and time of opening.
type BulkEnder func(dead func(id peer.ID, local netip.Addr, opened time.Time) bool)

// AddressChanges notices that this machine has lost an address, as a laptop does that goes from one
// network to another. Nothing comes for that address any more, and its connections look alive all
// the same: the pulses of members show it after 12 s, those of relays later. So these connections
// are ended at once, and where they led is dialled again. The other ends learn by the first message
// on the new connection that they need not wait for the old ones: see moved.go.
//
// An address that stays while the router's changes is not noticed here; pulses show that.
type AddressChanges struct {
	env     peers.Env
	pulses  *Pulses
	hurry   func()
	endBulk BulkEnder
	source  func(multiaddr.Multiaddr) netip.Addr
	had     map[netip.Addr]bool   // of the goroutine of Run, as what follows
	via     map[string]netip.Addr // what connections send from whose socket has all addresses
	change  time.Time             // the last one; peers that were left are dialled for a while
	again   bool                  // dials under way have begun again since
	mu      struct {
		sync.Mutex
		// peers whose connections all ended so, and when; until there is another
		left map[peer.ID]time.Time
		// peers whose last connection ended in the last seconds, and when
		broke map[peer.ID]time.Time
		// connections that end for a change, and not because a process has died; of the last minute
		ended map[string]time.Time
	}
}

// NewAddressChanges begins to serve ProtocolMoved. hurry has bootstrap nodes dialled at once,
// source is the address that this machine sends from to another one (SourceTo). The caller runs it
// where the host is its own.
func NewAddressChanges(env peers.Env, pulses *Pulses, hurry func(), endBulk BulkEnder,
	source func(multiaddr.Multiaddr) netip.Addr,
) *AddressChanges {
	ac := &AddressChanges{
		env: env, pulses: pulses, hurry: hurry, endBulk: endBulk, source: source, via: make(map[string]netip.Addr),
	}
	ac.mu.left = make(map[peer.ID]time.Time)
	ac.mu.broke = make(map[peer.ID]time.Time)
	ac.mu.ended = make(map[string]time.Time)
	env.Notify(dropStale(ac.ends))
	env.Notify(&network.NotifyBundle{
		ConnectedF: func(_ network.Network, c network.Conn) { ac.back(c) },
		DisconnectedF: func(w network.Network, c network.Conn) {
			if w.Connectedness(c.RemotePeer()) == network.NotConnected {
				ac.breaks(c.RemotePeer(), time.Now())
			}
		},
	})
	env.Host.SetStreamHandler(ProtocolMoved, ac.told)
	env.Tasks.After(func() { env.Host.RemoveStreamHandler(ProtocolMoved) })
	return ac
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
	gone, changed := make(map[netip.Addr]bool), false
	for a := range ac.had {
		if !have[a] {
			gone[a], changed = true, true
		}
	}
	for a := range have {
		changed = changed || !ac.had[a]
	}
	ac.had = have
	if len(gone) > 0 {
		ac.leave(gone, now)
	}
	if changed {
		ac.change, ac.again = now, false
	}
	if since := now.Sub(ac.change); since < dialAgainFor {
		stuck := since >= dialStuck && !ac.again
		ac.again = ac.again || stuck
		ac.goBack(gone, stuck, now)
	}
	ac.noteSources()
}

// leave ends the connections of addresses that are gone.
func (ac *AddressChanges) leave(gone map[netip.Addr]bool, now time.Time) {
	dead, alone := lost(ac.env.Host.Network().Conns(), func(c network.Conn) bool { return gone[ac.from(c)] })
	ac.env.Log.Info("addresses of this machine are gone: connections from them are ended, and begun anew", "addrs",
		slices.Collect(maps.Keys(gone)), "connections", len(dead))
	ac.leaveBroken(now)
	for _, c := range dead {
		ac.end(c, alone[c.RemotePeer()], now)
	}
	ac.endBulk(func(_ peer.ID, local netip.Addr, _ time.Time) bool { return gone[local] })
}

// breaks notes that a peer's last connection has ended.
func (ac *AddressChanges) breaks(id peer.ID, now time.Time) {
	ac.mu.Lock()
	defer ac.mu.Unlock()
	maps.DeleteFunc(ac.mu.broke, func(_ peer.ID, at time.Time) bool { return now.Sub(at) > breaksBefore })
	ac.mu.broke[id] = now
}

// leaveBroken adds the peers whose connections broke before the change was noticed to those that
// were left.
func (ac *AddressChanges) leaveBroken(now time.Time) {
	ac.mu.Lock()
	for id, at := range ac.mu.broke {
		if now.Sub(at) <= breaksBefore {
			ac.mu.left[id] = at
		}
	}
	broke := ac.mu.broke
	ac.mu.broke = make(map[peer.ID]time.Time)
	ac.mu.Unlock()
	for id := range broke {
		for _, c := range ac.env.Host.Network().ConnsToPeer(id) {
			ac.back(c)
		}
	}
}

// lost are the connections that a move has ended, those through relays with the relays', and the
// peers that have no others.
func lost(conns []network.Conn, here func(network.Conn) bool) (dead []network.Conn, alone map[peer.ID]bool) {
	alone = make(map[peer.ID]bool)
	live := make(map[peer.ID]bool)
	judge := func(relayed bool, isDead func(network.Conn) bool) {
		for _, c := range conns {
			switch {
			case addr.IsRelayed(c.RemoteMultiaddr()) != relayed:
			case isDead(c):
				dead = append(dead, c)
				alone[c.RemotePeer()] = true
			default:
				live[c.RemotePeer()] = true
			}
		}
	}
	judge(false, here)
	direct := maps.Clone(live)
	judge(true, func(c network.Conn) bool {
		relay, ok := addr.Relay(c.RemoteMultiaddr())
		return ok && alone[relay] && !direct[relay]
	})
	maps.DeleteFunc(alone, func(id peer.ID, _ bool) bool { return live[id] })
	return dead, alone
}

// end ends a connection; alone says that the peer has no other left.
func (ac *AddressChanges) end(c network.Conn, alone bool, now time.Time) {
	ac.mu.Lock()
	maps.DeleteFunc(ac.mu.ended, func(_ string, at time.Time) bool { return now.Sub(at) > time.Minute })
	ac.mu.ended[c.ID()] = now
	if alone {
		ac.mu.left[c.RemotePeer()] = now
	}
	ac.mu.Unlock()
	ac.env.Tasks.Go(func() { _ = c.Close() }) // it is gone in any case
}

// ends says whether a connection ends for a move.
func (ac *AddressChanges) ends(c network.Conn) bool {
	ac.mu.Lock()
	defer ac.mu.Unlock()
	_, so := ac.mu.ended[c.ID()]
	return so
}

// goBack dials the peers that were left: members, and bootstrap nodes, through which others reach
// this peer. Dials under way go on, where it is not time for others, if none of the addresses that
// are gone can be what they are sent from: some come and go all the time.
func (ac *AddressChanges) goBack(gone map[netip.Addr]bool, anew bool, now time.Time) {
	ac.mu.Lock()
	// a change longer ago is not reported
	maps.DeleteFunc(ac.mu.left, func(_ peer.ID, when time.Time) bool { return now.Sub(when) > maxMoveAge })
	var missing []peer.ID
	for id := range ac.mu.left {
		if ac.env.Host.Network().Connectedness(id) == network.NotConnected {
			missing = append(missing, id)
		}
	}
	ac.mu.Unlock()
	for _, id := range missing {
		ac.env.Dialer.ForgetFailures(id)
		if anew || mayReach(gone, ac.env.Host.Peerstore().Addrs(id)) {
			ac.env.Dialer.Restart(id)
		}
		ac.pulses.Redial(id)
	}
	if len(missing) > 0 {
		ac.hurry()
	}
}

// mayReach says whether something may be sent from one of these addresses to one of those. None
// known, or a name, may be anywhere.
func mayReach(from map[netip.Addr]bool, to []multiaddr.Multiaddr) bool {
	if len(to) == 0 {
		return len(from) > 0
	}
	for a := range from {
		for _, dest := range to {
			b := addr.IP(dest)
			if !b.IsValid() || a.Is4() == b.Is4() && a.IsLoopback() == b.IsLoopback() {
				return true
			}
		}
	}
	return false
}

// noteSources remembers from which address connections send: after a move it cannot be asked any
// more.
func (ac *AddressChanges) noteSources() {
	via := make(map[string]netip.Addr)
	for _, c := range ac.env.Host.Network().Conns() {
		if addr.IsRelayed(c.RemoteMultiaddr()) || !addr.IP(c.LocalMultiaddr()).IsUnspecified() {
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

// from is the address that a connection sends from; the zero value where it is not known.
func (ac *AddressChanges) from(c network.Conn) netip.Addr {
	if a := addr.IP(c.LocalMultiaddr()); !a.IsUnspecified() {
		return a
	}
	return ac.via[c.ID()]
}

// back reports the change to a peer that was left, on its first connection since. Where an older
// connection lives after all nothing is reported.
func (ac *AddressChanges) back(c network.Conn) {
	id := c.RemotePeer()
	ac.mu.Lock()
	when, left := ac.mu.left[id]
	delete(ac.mu.left, id)
	ac.mu.Unlock()
	if left && c.Stat().Opened.After(when) {
		ac.env.Tasks.Go(func() { ac.tell(c, when) })
	}
}

// age is how long ago something was, as it is sent.
func age(since time.Time) []byte {
	return binary.BigEndian.AppendUint32(nil, uint32(min(time.Since(since).Milliseconds(), maxMoveAge.Milliseconds())))
}
