package p2p

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
)

const (
	moveLook     = 500 * time.Millisecond  // between looks at this machine's addresses
	movePatience = 30 * time.Second        // that those who were left are dialled again and again, after the last change
	moveStuck    = 1500 * time.Millisecond // after a change dials under way begin anew: what was sent in between may be lost, and libp2p would wait for 5 s
	moveBreaks   = 2 * time.Second         // that connections may have broken by themselves before a move is noticed: over QUIC a packet that cannot leave does that
)

// moves notices that this machine has lost an address, as a laptop does that goes from one network to another. Nothing comes for it any more, and
// its connections look alive all the same: the members' pulses tell after 12 s, those of relays later. So they are ended at once, and where they
// led is dialled again, while the other ends learn by what is said first on the new connection that they need not wait for the old ones: see moved.go.
//
// An address that stays while the router's changes is not noticed here; pulses tell of that.
type moves struct {
	n      *Network
	news   []network.Notifiee
	source func(multiaddr.Multiaddr) netip.Addr
	had    map[netip.Addr]bool   // of the goroutine of run, as what follows
	via    map[string]netip.Addr // what connections send from whose socket has all addresses
	change time.Time             // of addresses, the last; those who were left are dialled for a while
	anew   bool                  // dials under way have begun anew since
	mu     struct {
		sync.Mutex
		left  map[peer.ID]time.Time // whose connections all ended so, and when; until there is another
		broke map[peer.ID]time.Time // whose last connection ended, and when, of the last seconds
		ended map[string]time.Time  // connections that end for a move, and not because a process has died; of the last minute
	}
}

func newMoves(n *Network) *moves {
	m := &moves{n: n, source: sourceTo, via: make(map[string]netip.Addr)}
	m.mu.left = make(map[peer.ID]time.Time)
	m.mu.broke = make(map[peer.ID]time.Time)
	m.mu.ended = make(map[string]time.Time)
	m.news = []network.Notifiee{dropStale(m.ends), &network.NotifyBundle{
		ConnectedF: func(_ network.Network, c network.Conn) { m.back(c) },
		DisconnectedF: func(w network.Network, c network.Conn) {
			if w.Connectedness(c.RemotePeer()) == network.NotConnected {
				m.breaks(c.RemotePeer(), time.Now())
			}
		},
	}}
	for _, news := range m.news {
		n.host.Network().Notify(news)
	}
	n.host.SetStreamHandler(ProtocolMoved, m.told)
	return m
}

func (m *moves) run() {
	tick := time.NewTicker(moveLook)
	defer tick.Stop()
	for m.had = localAddrs(); ; { // nothing has changed yet: change is long ago
		select {
		case <-m.n.ctx.Done():
			return
		case <-tick.C:
			if have := localAddrs(); len(have) > 0 { // a loopback address is always there: else nothing is known
				m.look(have, time.Now())
			}
		}
	}
}

// look compares the addresses that this machine has now with those that it had.
func (m *moves) look(have map[netip.Addr]bool, now time.Time) {
	gone, changed := make(map[netip.Addr]bool), false
	for a := range m.had {
		if !have[a] {
			gone[a], changed = true, true
		}
	}
	for a := range have {
		changed = changed || !m.had[a]
	}
	m.had = have
	if len(gone) > 0 {
		m.leave(gone, now)
	}
	if changed {
		m.change, m.anew = now, false
	}
	if since := now.Sub(m.change); since < movePatience {
		stuck := since >= moveStuck && !m.anew
		m.anew = m.anew || stuck
		m.goBack(gone, stuck, now)
	}
	m.noteSources()
}

// leave ends the connections of addresses that are gone.
func (m *moves) leave(gone map[netip.Addr]bool, now time.Time) {
	dead, alone := lost(m.n.host.Network().Conns(), func(c network.Conn) bool { return gone[m.from(c)] })
	m.n.log.Info("addresses of this machine are gone: connections from them are ended, and begun anew", "addrs", slices.Collect(maps.Keys(gone)), "connections", len(dead))
	m.leaveBroken(now)
	for _, c := range dead {
		m.end(c, alone[c.RemotePeer()], now)
	}
	if m.n.bulk != nil {
		m.n.bulk.moved(func(c *bulkConn) bool { return gone[addrOf(c.raw.LocalAddr())] })
	}
}

// breaks notes that a peer's last connection has ended.
func (m *moves) breaks(id peer.ID, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	maps.DeleteFunc(m.mu.broke, func(_ peer.ID, at time.Time) bool { return now.Sub(at) > moveBreaks })
	m.mu.broke[id] = now
}

// leaveBroken counts those among whom are left whose connections have not waited for a move to be noticed.
func (m *moves) leaveBroken(now time.Time) {
	m.mu.Lock()
	for id, at := range m.mu.broke {
		if now.Sub(at) <= moveBreaks {
			m.mu.left[id] = at
		}
	}
	broke := m.mu.broke
	m.mu.broke = make(map[peer.ID]time.Time)
	m.mu.Unlock()
	for id := range broke {
		for _, c := range m.n.host.Network().ConnsToPeer(id) {
			m.back(c)
		}
	}
}

// lost are the connections that a move has ended, those through relays with the relays', and the peers that have no others.
func lost(conns []network.Conn, here func(network.Conn) bool) (dead []network.Conn, alone map[peer.ID]bool) {
	alone = make(map[peer.ID]bool)
	live := make(map[peer.ID]bool)
	judge := func(relayed bool, isDead func(network.Conn) bool) {
		for _, c := range conns {
			switch {
			case isRelayed(c.RemoteMultiaddr()) != relayed:
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
		relay, ok := relayOf(c.RemoteMultiaddr())
		return ok && alone[relay] && !direct[relay]
	})
	maps.DeleteFunc(alone, func(id peer.ID, _ bool) bool { return live[id] })
	return dead, alone
}

// end ends a connection; alone says that the peer has no other left.
func (m *moves) end(c network.Conn, alone bool, now time.Time) {
	m.mu.Lock()
	maps.DeleteFunc(m.mu.ended, func(_ string, at time.Time) bool { return now.Sub(at) > time.Minute })
	m.mu.ended[c.ID()] = now
	if alone {
		m.mu.left[c.RemotePeer()] = now
	}
	m.mu.Unlock()
	m.n.goDo(func() { _ = c.Close() }) // it is gone in any case
}

// ends says whether a connection ends for a move.
func (m *moves) ends(c network.Conn) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, so := m.mu.ended[c.ID()]
	return so
}

// goBack dials those who were left: members, and bootstrap nodes, through which others reach this peer. Dials under way go on, where it is not
// time for others, if none of the addresses that are gone can be what they are sent from: some come and go all the time.
func (m *moves) goBack(gone map[netip.Addr]bool, anew bool, now time.Time) {
	m.mu.Lock()
	maps.DeleteFunc(m.mu.left, func(_ peer.ID, when time.Time) bool { return now.Sub(when) > maxMoveAge }) // no longer ago is told
	var missing []peer.ID
	for id := range m.mu.left {
		if m.n.host.Network().Connectedness(id) == network.NotConnected {
			missing = append(missing, id)
		}
	}
	m.mu.Unlock()
	for _, id := range missing {
		m.n.forgetFailures(id)
		if anew || mayReach(gone, m.n.host.Peerstore().Addrs(id)) {
			m.n.arrivals.again(id)
		}
		m.n.pulses.redial(id)
	}
	if len(missing) > 0 {
		m.n.boot.hurry()
	}
}

// mayReach says whether something may be sent from one of these addresses to one of those. None known, or a name, may be anywhere.
func mayReach(from map[netip.Addr]bool, to []multiaddr.Multiaddr) bool {
	if len(to) == 0 {
		return len(from) > 0
	}
	for a := range from {
		for _, addr := range to {
			b := ipOf(addr)
			if !b.IsValid() || a.Is4() == b.Is4() && a.IsLoopback() == b.IsLoopback() {
				return true
			}
		}
	}
	return false
}

// noteSources remembers from which address connections send: after a move it cannot be asked any more.
func (m *moves) noteSources() {
	via := make(map[string]netip.Addr)
	for _, c := range m.n.host.Network().Conns() {
		if isRelayed(c.RemoteMultiaddr()) || !ipOf(c.LocalMultiaddr()).IsUnspecified() {
			continue
		}
		a, known := m.via[c.ID()]
		if !known {
			a = m.source(c.RemoteMultiaddr())
		}
		via[c.ID()] = a
	}
	m.via = via
}

// from is the address that a connection sends from; the zero value where it is not known.
func (m *moves) from(c network.Conn) netip.Addr {
	if a := ipOf(c.LocalMultiaddr()); !a.IsUnspecified() {
		return a
	}
	return m.via[c.ID()]
}

// back has a peer that was left told of it, on its first connection since. Where an older one lives after all nothing is said.
func (m *moves) back(c network.Conn) {
	id := c.RemotePeer()
	m.mu.Lock()
	when, left := m.mu.left[id]
	delete(m.mu.left, id)
	m.mu.Unlock()
	if left && c.Stat().Opened.After(when) {
		m.n.goDo(func() { m.tell(c, when) })
	}
}

// close ends what newMoves began.
func (m *moves) close() {
	m.n.host.RemoveStreamHandler(ProtocolMoved)
	for _, news := range m.news {
		m.n.host.Network().StopNotify(news)
	}
}

// age is how long ago something was, as it is told.
func age(since time.Time) []byte {
	return binary.BigEndian.AppendUint32(nil, uint32(min(time.Since(since).Milliseconds(), maxMoveAge.Milliseconds())))
}
