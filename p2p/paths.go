package p2p

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/p2p/protocol/holepunch"
	"github.com/libp2p/go-libp2p/p2p/protocol/ping"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// Ways to a peer.
const (
	WayDirect  = "direct"
	WayPunched = "punched" // direct, through a hole that both punched at once
	WayRelayed = "relayed"
)

// Path is how a peer is reached now.
type Path struct {
	Peer      slot.PeerID   `json:"peer"`
	Way       string        `json:"way"`                 // WayDirect, WayPunched or WayRelayed
	Transport string        `json:"transport,omitempty"` // tcp or quic-v1, of a way that is not relayed
	Addr      string        `json:"addr"`                // of the other end; of the relay's
	Relay     slot.PeerID   `json:"relay,omitempty"`     // through which peer
	Limited   bool          `json:"limited,omitempty"`   // the relay is none of ours and lets only small things pass
	Since     time.Time     `json:"since"`
	RTT       time.Duration `json:"rtt_ns,omitempty"` // measured now and then; 0: not yet
}

const (
	rttFresh   = 10 * time.Second // a measure that is older is made anew when somebody looks
	rttTimeout = 5 * time.Second
	maxRTTs    = 1024
)

// Paths tells how each peer connected now is reached, by its best connection, sorted by peer.
func (n *Network) Paths() []Path {
	var paths []Path
	for _, id := range n.host.Network().Peers() {
		best, ok := n.bestConn(id)
		if !ok {
			continue
		}
		p := pathOf(best)
		if p.Way == WayDirect && n.punches.made(best) {
			p.Way = WayPunched
		}
		p.RTT = n.rtts.of(n, id, best)
		paths = append(paths, p)
	}
	slices.SortFunc(paths, func(a, b Path) int { return cmp.Compare(a.Peer, b.Peer) })
	return paths
}

// Relayed has the peers connected now, but over limited relays alone: true where the best way leads through a relay.
func (n *Network) Relayed() map[slot.PeerID]bool {
	relayed := make(map[slot.PeerID]bool)
	for _, id := range n.host.Network().Peers() {
		if best, ok := n.bestConn(id); ok && !best.Stat().Limited {
			relayed[slot.PeerID(id)] = isRelayed(best.RemoteMultiaddr())
		}
	}
	return relayed
}

// bestConn is the connection to a peer that new streams take: direct before relayed, relayed before limited.
func (n *Network) bestConn(id peer.ID) (best network.Conn, ok bool) {
	for _, c := range n.host.Network().ConnsToPeer(id) {
		if !c.IsClosed() && (best == nil || wayRank(c) < wayRank(best)) {
			best = c
		}
	}
	return best, best != nil
}

func wayRank(c network.Conn) int {
	switch {
	case c.Stat().Limited:
		return 2
	case isRelayed(c.RemoteMultiaddr()):
		return 1
	}
	return 0
}

func pathOf(c network.Conn) Path {
	a := c.RemoteMultiaddr()
	p := Path{Peer: slot.PeerID(c.RemotePeer()), Way: WayDirect, Transport: c.ConnState().Transport, Addr: a.String(), Since: c.Stat().Opened, Limited: c.Stat().Limited}
	if !isRelayed(a) {
		return p
	}
	p.Way, p.Transport = WayRelayed, ""
	if id, ok := relayOf(a); ok {
		p.Relay = slot.PeerID(id)
	}
	return p
}

// punches remembers which connections came of holes punched.
type punches struct {
	mu struct {
		sync.Mutex
		at map[peer.ID]time.Time // newest success with a peer
	}
}

// Trace implements holepunch.EventTracer.
func (p *punches) Trace(e *holepunch.Event) {
	end, ok := e.Evt.(*holepunch.EndHolePunchEvt)
	if !ok || !end.Success {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.at == nil {
		p.mu.at = make(map[peer.ID]time.Time)
	}
	if len(p.mu.at) >= maxRTTs {
		clear(p.mu.at) // a word in the status is all that hangs on it
	}
	p.mu.at[e.Remote] = time.Now()
}

// punchTime is how long before a success is told its connection may have been opened, and how long after it the other side's.
const punchTime = 15 * time.Second

// made says whether a direct connection came of a hole punched.
func (p *punches) made(c network.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	at, ok := p.mu.at[c.RemotePeer()]
	return ok && c.Stat().Opened.Sub(at).Abs() < punchTime
}

// rtts are round trips to peers, measured when somebody looks.
type rtts struct {
	mu struct {
		sync.Mutex
		known map[peer.ID]rtt
	}
}

type rtt struct {
	conn string // it was measured on
	took time.Duration
	at   time.Time // of the begin of the newest measure
}

// of is the newest measure on a connection, 0 if there is none. An old one is made anew meanwhile.
func (r *rtts) of(n *Network, id peer.ID, c network.Conn) time.Duration {
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.mu.known == nil {
		r.mu.known = make(map[peer.ID]rtt)
	}
	was := r.mu.known[id]
	if was.conn != c.ID() {
		was = rtt{conn: c.ID()}
	}
	if now.Sub(was.at) > rttFresh && !c.Stat().Limited {
		was.at = now
		if len(r.mu.known) >= maxRTTs {
			clear(r.mu.known)
		}
		r.mu.known[id] = was
		n.goDo(func() { r.measure(n, id, c.ID()) })
	}
	return was.took
}

func (r *rtts) measure(n *Network, id peer.ID, conn string) {
	ctx, cancel := context.WithTimeout(n.ctx, rttTimeout)
	defer cancel()
	took, err := n.ping(ctx, id)
	if err != nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if was := r.mu.known[id]; was.conn == conn {
		was.took = took
		r.mu.known[id] = was
	}
}

// ping is one round trip to a peer that is connected.
func (n *Network) ping(ctx context.Context, id peer.ID) (time.Duration, error) {
	ctx, cancel := context.WithCancel(network.WithNoDial(ctx, "ping"))
	defer cancel()
	select {
	case r := <-ping.Ping(ctx, n.host, id):
		return r.RTT, r.Error
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}
