package liveness

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

	"github.com/p2pdiloco/p2pdiloco/p2p/internal/addr"
)

// ProtocolMoved is the ID of the streams on which a peer reports that its older connections are
// dead.
const ProtocolMoved = "/p2pdiloco/moved/1.0.0"

const (
	moveTell   = 5 * time.Second // to report a change to one peer
	maxMoveAge = time.Hour       // that is reported
)

// tell reports to a peer, on a new connection, how long ago this one moved. A peer can end its own
// connections only by that: no gate is asked, and relays of private runs, which are not members,
// receive it too.
func (ac *AddressChanges) tell(c network.Conn, since time.Time) {
	ctx, cancel := context.WithTimeout(network.WithAllowLimitedConn(network.WithNoDial(ac.env.Tasks.Context(), "moved"),
		"moved"),
		moveTell)
	defer cancel()
	s, err := ac.env.Host.NewStream(ctx, c.RemotePeer(), ProtocolMoved)
	if err == nil {
		defer s.Close() //nolint:errcheck // all is said
		_ = s.SetDeadline(time.Now().Add(moveTell))
		_, err = s.Write(age(since))
	}
	if err != nil {
		ac.env.Log.Debug("a peer was not told that this one has moved", "peer", c.RemotePeer(), "err", err)
	}
}

// told takes in the report that a peer has moved: its connections of before are dead, whatever they
// look like. That on which it says so is not, nor are those since.
func (ac *AddressChanges) told(s network.Stream) {
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
	ac.env.Log.Debug("a peer has moved: its older connections are ended", "peer", s.Conn().RemotePeer())
	ac.forgo(s.Conn().RemotePeer(), before)
}

// forgo ends what a peer had before.
func (ac *AddressChanges) forgo(id peer.ID, before time.Time) {
	for _, c := range ac.env.Host.Network().ConnsToPeer(id) {
		if c.Stat().Opened.Before(before) {
			ac.end(c, false, time.Now())
		}
	}
	ac.endBulk(func(of peer.ID, _ netip.Addr, opened time.Time) bool { return of == id && opened.Before(before) })
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
		have[addr.OfNet(a)] = true
	}
	return have
}

// SourceTo is the address that this machine sends from to another one now. Nothing is sent.
func SourceTo(to multiaddr.Multiaddr) netip.Addr {
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
	return addr.OfNet(c.LocalAddr())
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
// One that is ended because a machine has moved says nothing of the others. Nor does one that has
// just come: a peer that dials over both transports, one a little later, keeps what is there first,
// and ends the other, which may be there for us by then.
func dropStale(moved func(network.Conn) bool) *network.NotifyBundle {
	return &network.NotifyBundle{DisconnectedF: func(n network.Network, c network.Conn) {
		if !addr.OverTCP(c.RemoteMultiaddr()) || time.Since(c.Stat().Opened) < outrun || moved(c) {
			return
		}
		for _, other := range n.ConnsToPeer(c.RemotePeer()) {
			if !addr.IsRelayed(other.RemoteMultiaddr()) && !addr.OverTCP(other.RemoteMultiaddr()) {
				_ = other.Close() // it is gone in any case
			}
		}
	}}
}
