package nat

import (
	"maps"
	"net/netip"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	manet "github.com/multiformats/go-multiaddr/net"

	"github.com/p2pdiloco/p2pdiloco/p2p/internal/peers"
)

const (
	// outwardTerm is for how long after a connection to an address a router may let in what comes
	// from there.
	outwardTerm = 10 * time.Minute
	maxOutward  = 4096 // addresses that are remembered
)

// inbound knows whether somebody has come to this peer from outside by itself: a member or a
// bootstrap node, not through a hole punched, and from a public address to which this peer itself
// had no connection lately. A router lets those in.
type inbound struct {
	env     Env
	punched *punched
	mu      struct {
		sync.Mutex
		outward map[netip.Addr]time.Time // when a connection to an address was there last
	}
}

func newInbound(env Env, p *punched) *inbound {
	in := &inbound{env: env, punched: p}
	in.mu.outward = make(map[netip.Addr]time.Time)
	note := func(_ network.Network, c network.Conn) {
		if isOutward(c) {
			in.wentTo(peers.IP(c.RemoteMultiaddr()), time.Now())
		}
	}
	env.Notify(&network.NotifyBundle{ConnectedF: note, DisconnectedF: note})
	return in
}

func isOutward(c network.Conn) bool {
	return c.Stat().Direction != network.DirInbound && !peers.IsRelayed(c.RemoteMultiaddr())
}

func (in *inbound) wentTo(ip netip.Addr, now time.Time) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if len(in.mu.outward) >= maxOutward {
		maps.DeleteFunc(in.mu.outward, func(_ netip.Addr, at time.Time) bool { return now.Sub(at) > outwardTerm })
	}
	if len(in.mu.outward) < maxOutward {
		in.mu.outward[ip] = now
	}
}

// came says whether such a connection is there. One is judged when it has lasted for a while: that
// a hole was punched is reported after its connection.
func (in *inbound) came(now time.Time) bool {
	conns := in.env.Host.Network().Conns()
	for _, c := range conns {
		if isOutward(c) {
			in.wentTo(peers.IP(c.RemoteMultiaddr()), now)
		}
	}
	for _, c := range conns {
		if c.Stat().Direction == network.DirInbound && now.Sub(c.Stat().Opened) > punchTime &&
			!peers.IsRelayed(c.RemoteMultiaddr()) && manet.IsPublicAddr(c.RemoteMultiaddr()) &&
			!in.punched.made(c) && in.env.trusted(c.RemotePeer()) && !in.was(c) {
			return true
		}
	}
	return false
}

// was says whether this peer had a connection to the address of another one, less than outwardTerm
// before that or since.
func (in *inbound) was(c network.Conn) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	at, went := in.mu.outward[peers.IP(c.RemoteMultiaddr())]
	return went && c.Stat().Opened.Sub(at) < outwardTerm || len(in.mu.outward) >= maxOutward
}
