package p2p

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"net/netip"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/multiformats/go-multiaddr"
	manet "github.com/multiformats/go-multiaddr/net"
)

const (
	moveTell   = 5 * time.Second // to tell one peer of a move
	maxMoveAge = time.Hour       // that is told
)

// tell says to a peer, on a new connection, how long ago this one moved. Whoever says so can end its own connections only: no gate is asked, and
// relays of private runs, which are none of the run, hear of it too.
func (m *moves) tell(c network.Conn, since time.Time) {
	ctx, cancel := context.WithTimeout(network.WithAllowLimitedConn(network.WithNoDial(m.n.ctx, "moved"), "moved"), moveTell)
	defer cancel()
	s, err := m.n.host.NewStream(ctx, c.RemotePeer(), ProtocolMoved)
	if err == nil {
		defer s.Close() //nolint:errcheck // all is said
		_ = s.SetDeadline(time.Now().Add(moveTell))
		_, err = s.Write(age(since))
	}
	if err != nil {
		m.n.log.Debug("a peer was not told that this one has moved", "peer", c.RemotePeer(), "err", err)
	}
}

// told takes in that a peer has moved: its connections of before are dead, whatever they look like. That on which it says so is not, nor are those since.
func (m *moves) told(s network.Stream) {
	defer s.Reset() //nolint:errcheck // nothing is answered
	_ = s.SetReadDeadline(time.Now().Add(moveTell))
	var b [4]byte
	if _, err := io.ReadFull(s, b[:]); err != nil {
		return
	}
	before := time.Now().Add(-min(time.Duration(binary.BigEndian.Uint32(b[:]))*time.Millisecond, maxMoveAge))
	if opened := s.Conn().Stat().Opened; opened.Before(before) {
		before = opened
	}
	m.n.log.Debug("a peer has moved: its older connections are ended", "peer", s.Conn().RemotePeer())
	m.forgo(s.Conn().RemotePeer(), before)
}

// forgo ends what a peer had before.
func (m *moves) forgo(id peer.ID, before time.Time) {
	for _, c := range m.n.host.Network().ConnsToPeer(id) {
		if c.Stat().Opened.Before(before) {
			m.end(c, false, time.Now())
		}
	}
	if m.n.bulk != nil {
		m.n.bulk.moved(func(c *bulkConn) bool { return c.peer == id && c.opened.Before(before) })
	}
}

// moved ends connections whose other end, or this one, is not there any more. What was tried in vain before says nothing.
func (b *bulk) moved(dead func(*bulkConn) bool) {
	for _, c := range b.connsOf(dead) {
		c.close()
		b.anew(c.peer)
	}
}

// localAddrs are the addresses of this machine; nil if that cannot be had. It is asked for, twice a second, and not told: every system has it.
func localAddrs() map[netip.Addr]bool {
	all, err := net.InterfaceAddrs()
	if err != nil {
		return nil
	}
	have := make(map[netip.Addr]bool, len(all))
	for _, a := range all {
		have[addrOf(a)] = true
	}
	return have
}

// addrOf is the IP address of a; the zero value if it has none.
func addrOf(a net.Addr) netip.Addr {
	var ip net.IP
	switch a := a.(type) {
	case *net.IPNet:
		ip = a.IP
	case *net.TCPAddr:
		ip = a.IP
	case *net.UDPAddr:
		ip = a.IP
	}
	addr, _ := netip.AddrFromSlice(ip)
	return addr.Unmap()
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
	return addrOf(c.LocalAddr())
}
