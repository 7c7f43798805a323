package p2p

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/p2p/internal/nat"
	"github.com/p2pdiloco/p2pdiloco/p2p/internal/peers"
)

// Ways to a peer.
const (
	WayDirect  = "direct"
	WayPunched = "punched" // direct, through a hole that both punched at once
	WayRelayed = "relayed"
)

// Path is how a peer is reached now.
type Path struct {
	Peer slot.PeerID `json:"peer"`
	Way  string      `json:"way"` // WayDirect, WayPunched or WayRelayed
	// tcp or quic-v1, of a way that is not relayed
	Transport string      `json:"transport,omitempty"`
	Addr      string      `json:"addr"`            // of the other end; of the relay's
	Relay     slot.PeerID `json:"relay,omitempty"` // through which peer
	// the relay is none of ours and lets only small things pass
	Limited bool          `json:"limited,omitempty"`
	Since   time.Time     `json:"since"`
	RTT     time.Duration `json:"rtt_ns,omitempty"` // measured now and then; 0: not yet
}

const (
	rttFresh   = 10 * time.Second // a measure that is older is made again when somebody looks
	rttTimeout = 5 * time.Second
	maxRTTs    = 1024
)

// Paths reports how each peer connected now is reached, by its best connection, sorted by peer.
func (n *Network) Paths() []Path {
	var paths []Path
	for _, id := range n.env.Host.Network().Peers() {
		best, ok := n.env.BestConn(id)
		if !ok {
			continue
		}
		p := pathOf(best)
		if p.Way == WayDirect && n.nat.Punched(best) {
			p.Way = WayPunched
		}
		p.RTT = n.roundTrip(best)
		paths = append(paths, p)
	}
	slices.SortFunc(paths, func(a, b Path) int { return cmp.Compare(a.Peer, b.Peer) })
	return paths
}

// Relayed has the peers connected now, but over limited relays alone: true where the best way leads
// through a relay.
func (n *Network) Relayed() map[slot.PeerID]bool {
	relayed := make(map[slot.PeerID]bool)
	for _, id := range n.env.Host.Network().Peers() {
		if best, ok := n.env.BestConn(id); ok && !best.Stat().Limited {
			relayed[slot.PeerID(id)] = peers.IsRelayed(best.RemoteMultiaddr())
		}
	}
	return relayed
}

func pathOf(c network.Conn) Path {
	a := c.RemoteMultiaddr()
	p := Path{
		Peer: slot.PeerID(c.RemotePeer()), Way: WayDirect, Transport: c.ConnState().Transport, Addr: a.String(),
		Since: c.Stat().Opened, Limited: c.Stat().Limited,
	}
	if !peers.IsRelayed(a) {
		return p
	}
	p.Way, p.Transport = WayRelayed, ""
	if id, ok := peers.Relay(a); ok {
		p.Relay = slot.PeerID(id)
	}
	return p
}

// rtt is a round trip to a peer over a connection, measured when somebody looks.
type rtt struct {
	took time.Duration
	at   time.Time // of the begin of the newest measure
}

// roundTrip is the newest measure on a connection, 0 if there is none. An old one is made again
// meanwhile.
func (n *Network) roundTrip(c network.Conn) time.Duration {
	was, _ := n.rtts.Get(c.ID())
	if now := time.Now(); now.Sub(was.at) > rttFresh && !c.Stat().Limited {
		n.rtts.Add(c.ID(), rtt{was.took, now})
		n.env.Tasks.Go(func() {
			ctx, cancel := context.WithTimeout(n.env.Tasks.Context(), rttTimeout)
			defer cancel()
			if took, err := peers.Ping(ctx, n.env.Host, c.RemotePeer()); err == nil {
				n.rtts.Add(c.ID(), rtt{took, now})
			}
		})
	}
	return was.took
}

// Site is where a peer that is connected lives, as far as it cannot choose that: its IPv4 address,
// of IPv6 the /56; behind a relay, the address of the relay. It is empty for a process on this
// machine, and "unknown" for a peer that is not connected.
func (n *Network) Site(id slot.PeerID) string {
	site := "unknown"
	for _, c := range n.env.Host.Network().ConnsToPeer(peer.ID(id)) {
		if peers.IP(c.RemoteMultiaddr()).IsLoopback() {
			return ""
		}
		site = peers.Subscriber(c.RemoteMultiaddr())
		if !peers.IsRelayed(c.RemoteMultiaddr()) {
			break
		}
	}
	return site
}

// Reach is how this peer can be reached by others.
type Reach = nat.Reach

// Reach reports how this peer can be reached.
func (n *Network) Reach() Reach { return n.nat.Reach() }

// newNAT makes what makes this peer reachable, and what it relays for others.
func (n *Network) newNAT() (*nat.NAT, error) {
	return nat.New(nat.Env{
		Env: n.env, OwnHost: n.ownHost, IsOfRun: n.isOfRun,
		MustEnd: func(id protocol.ID) bool { return protocols[id].mustEnd },
		Guesses: n.ports.Guesses,
	}, nat.Config{
		Announce: n.cfg.Announce, Relay: n.cfg.Relay, Upload: n.count.upload, Download: n.count.download,
		MaxUpload: n.cfg.MaxUpload, MaxDownload: n.cfg.MaxDownload, Carried: &n.count.carried,
		Hints: n.hints,
	})
}

// isOfRun says hello to a peer as one of a run. nil: it answered as one.
func (n *Network) isOfRun(ctx context.Context, id peer.ID, run string) error {
	theirs, err := n.Hello(ctx, slot.PeerID(id), Hello{Run: run})
	if err == nil && theirs.Run != run {
		err = fmt.Errorf("it is of run %q", theirs.Run)
	}
	return err
}
