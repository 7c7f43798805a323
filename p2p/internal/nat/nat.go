package nat

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"
	"github.com/multiformats/go-multiaddr"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/p2p/internal/addr"
	"github.com/p2pdiloco/p2pdiloco/p2p/internal/limits"
	"github.com/p2pdiloco/p2pdiloco/p2p/internal/peers"
)

// Env is what this package needs of the Network around it.
type Env struct {
	peers.Env
	OwnHost bool // the Network made it
	// Nodes are the bootstrap nodes.
	Nodes func() []peer.AddrInfo
	// IsOfRun says hello to a peer as one of a run. nil: it answered as one.
	IsOfRun func(ctx context.Context, id peer.ID, run string) error
	// MustEnd says whether a stream of a protocol cannot be opened again in the middle.
	MustEnd func(protocol.ID) bool
	// Guesses are where the TCP ports listened on may be reached from outside, by what was seen of
	// QUIC's.
	Guesses func(seen []multiaddr.Multiaddr) []multiaddr.Multiaddr
}

// Config says what this peer announces, and what it relays.
type Config struct {
	Announce []string // addresses that are announced besides those seen
	Relay    RelayConfig
	// Upload and Download count what is relayed; it does not wait for them.
	Upload, Download       *limits.Bucket
	MaxUpload, MaxDownload int64 // bytes a second; 0: no bound
	Carried                *Carried
}

// Carried is what a relay took in and sent on for others, in bytes.
type Carried struct{ Sent, Received atomic.Uint64 }

// NAT is all that makes a peer reachable.
type NAT struct {
	env      Env
	reach    *Reachability
	relay    *Relay
	reserved *Reservations
	holes    *Holes
	punched  *punched
}

// New makes the parts. The caller starts and closes it.
func New(env Env, cfg Config) (*NAT, error) {
	n := &NAT{env: env, relay: newRelay(env, cfg), holes: &Holes{}, punched: newPunched()}
	var err error
	if n.reach, err = newReachability(env, cfg.Announce); err != nil {
		return nil, err
	}
	n.reserved, err = newReservations(env, n.reach)
	return n, err
}

// Start begins to relay, to look for relays, and to look for better ways to members.
func (n *NAT) Start() error {
	n.env.Tasks.Go(func() { n.reach.run(n.follow) })
	n.env.Tasks.Go(n.reserved.run)
	n.env.Tasks.Go(func() { newUpgrades(n.env, n.holes).run() })
	n.env.Tasks.After(n.relay.close)
	return n.relay.set(n.reach.public())
}

// follow has relaying and reservations follow what is known of how this peer can be reached.
func (n *NAT) follow() {
	if err := n.relay.set(n.reach.public()); err != nil {
		n.env.Log.Warn("this peer cannot relay for others", "err", err)
	}
	n.reserved.wake.Raise()
}

// Backlog is how long what is to be relayed now will take.
func (n *NAT) Backlog() time.Duration { return n.relay.allowed.Ahead(time.Now()) }

// Close ends what PunchHoles began. The loops end with the task group.
func (n *NAT) Close() { n.holes.close() }

// Punched says whether a direct connection came of a hole that both sides punched at once.
func (n *NAT) Punched(c network.Conn) bool { return n.punched.made(c) }

// RelaysInUse are those through which this peer can be reached, or has a connection.
func (n *NAT) RelaysInUse() map[peer.ID]bool {
	used := make(map[peer.ID]bool)
	for _, id := range n.reserved.relays() {
		used[id] = true
	}
	for _, c := range n.env.Host.Network().Conns() {
		if id, ok := addr.Relay(c.RemoteMultiaddr()); ok {
			used[id] = true
		}
	}
	return used
}

// Reach reports how this peer can be reached.
func (n *NAT) Reach() Reach {
	r := Reach{Public: n.reach.public(), Relaying: n.relay.serving()}
	for _, id := range n.reserved.relays() {
		r.Relays = append(r.Relays, slot.PeerID(id))
	}
	r.Tried, r.Failed = n.reach.addrs()
	carried := n.relay.cfg.Carried
	r.Carried = Bytes{Sent: carried.Sent.Load(), Received: carried.Received.Load()}
	return r
}
