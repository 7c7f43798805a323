package nat

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/libp2p/go-libp2p/core/event"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"
	"github.com/libp2p/go-libp2p/p2p/host/eventbus"
	"github.com/multiformats/go-multiaddr"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/p2p/internal/limits"
	"github.com/p2pdiloco/p2pdiloco/p2p/internal/peers"
)

// Env is what this package needs of the Network around it.
type Env struct {
	peers.Env
	OwnHost bool // the Network made it
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
	Hints                  *Hints // of the host, where it is the Network's own
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
	hints    *Hints
}

// New makes the parts. The caller starts and closes it.
func New(env Env, cfg Config) (*NAT, error) {
	n := &NAT{env: env, relay: newRelay(env, cfg), holes: &Holes{}, punched: newPunched(), hints: cfg.Hints}
	n.hints.trust(env.trusted)
	var err error
	if n.reach, err = newReachability(env, cfg.Announce, newInbound(env, n.punched)); err != nil {
		return nil, err
	}
	n.reserved, err = newReservations(env, n.reach, n.punched, n.hints)
	return n, err
}

// Start begins to relay, to look for relays, and to look for better ways to members.
func (n *NAT) Start() error {
	n.env.Tasks.Go(func() { n.reach.run(n.reserved.wake.Raise) })
	n.env.Tasks.Go(n.reserved.run)
	n.env.Tasks.Go(func() { n.hints.watch(n.env) })
	n.env.Tasks.Go(func() { newUpgrades(n.env, n.holes).run() })
	n.env.Tasks.After(n.relay.close)
	return n.relay.open()
}

// Backlog is how long what is to be relayed now will take. Only tests ask.
func (n *NAT) Backlog() time.Duration { return n.relay.rate.Ahead(time.Now()) }

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
		if id, ok := peers.Relay(c.RemoteMultiaddr()); ok {
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

// Reach is how this peer can be reached by others.
type Reach struct {
	// an address that nearly all can dial is known to be reachable: announced by Config, or tried
	// by others (AutoNATv2)
	Public   bool          `json:"public"`
	Tried    []string      `json:"tried,omitempty"`    // public addresses that others reached
	Failed   []string      `json:"failed,omitempty"`   // and those that they could not reach
	Relays   []slot.PeerID `json:"relays,omitempty"`   // through which this peer can be reached
	Relaying bool          `json:"relaying,omitempty"` // this peer relays for others
	Carried  Bytes         `json:"carried"`            // what it has relayed: sent on, and taken in
}

// Bytes are numbers of bytes, each way.
type Bytes struct {
	Sent     uint64 `json:"sent"`
	Received uint64 `json:"received"`
}

// Reachability keeps what is known of how this peer can be reached.
type Reachability struct {
	env      Env
	announce []multiaddr.Multiaddr
	inbound  *inbound
	sub      event.Subscription
	mu       struct {
		sync.Mutex
		forced        network.Reachability // of the host, by its maker
		tried, failed []multiaddr.Multiaddr
		shown         bool // since an address was tried: see direct
	}
}

func newReachability(env Env, announce []string, in *inbound) (*Reachability, error) {
	sub, err := env.Host.EventBus().Subscribe([]any{
		new(event.EvtHostReachableAddrsChanged), new(event.EvtLocalReachabilityChanged),
		new(event.EvtLocalAddressesUpdated),
	}, eventbus.BufSize(64))
	return &Reachability{env: env, announce: peers.Parse(announce), inbound: in, sub: sub}, err
}

// run takes in what libp2p finds out, and calls follow after each change.
func (r *Reachability) run(follow func()) {
	defer r.sub.Close() //nolint:errcheck // nobody is left to tell
	for {
		follow()
		select {
		case <-r.env.Tasks.Context().Done():
			return
		case ev, ok := <-r.sub.Out():
			if !ok {
				return
			}
			r.take(ev)
		}
	}
}

func (r *Reachability) take(ev any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch ev := ev.(type) {
	case event.EvtHostReachableAddrsChanged:
		r.mu.tried, r.mu.failed = ev.Reachable, ev.Unreachable
	case event.EvtLocalReachabilityChanged:
		// AutoNAT's first version believes any stranger: only the maker of a host may say so
		if !r.env.OwnHost {
			r.mu.forced = ev.Reachability
		}
	}
}

// public says whether this peer is known to be reachable from everywhere.
func (r *Reachability) public() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.said() || slices.ContainsFunc(r.mu.tried, peers.FromEverywhere)
}

// said says whether this peer's user, or the maker of its host, says that it is reachable. mu is
// held.
func (r *Reachability) said() bool {
	return r.mu.forced == network.ReachabilityPublic || slices.ContainsFunc(r.announce, peers.FromEverywhere)
}

// direct says whether this peer needs no relay: it is known to be reachable, and besides somebody
// has come. A few others that lie about what they tried must not cut a peer off that is behind a
// router.
func (r *Reachability) direct() bool {
	shown := r.inbound.came(time.Now())
	r.mu.Lock()
	defer r.mu.Unlock()
	tried := slices.ContainsFunc(r.mu.tried, peers.FromEverywhere)
	r.mu.shown = tried && (r.mu.shown || shown)
	return r.said() || r.mu.shown
}

func texts(addrs []multiaddr.Multiaddr) (out []string) {
	for _, a := range addrs {
		out = append(out, a.String())
	}
	return out
}

// addrs are the public addresses that others reached, and those that they could not reach.
func (r *Reachability) addrs() (tried, failed []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return texts(r.mu.tried), texts(r.mu.failed)
}
