package nat

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/libp2p/go-libp2p/core/event"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/peerstore"
	"github.com/libp2p/go-libp2p/core/protocol"
	"github.com/libp2p/go-libp2p/p2p/host/eventbus"
	"github.com/libp2p/go-libp2p/p2p/host/peerstore/pstoremem"
	"github.com/libp2p/go-libp2p/p2p/protocol/autonatv2"
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
	up := &upgrades{
		env: n.env, holes: n.holes, tries: make(map[peer.ID]reserveTry), better: make(map[string]time.Time),
	}
	n.env.Tasks.Go(up.run)
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
	r := Reach{Public: n.reach.public(), Relaying: n.relay.service.Load() != nil}
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
			r.note(ev)
		}
	}
}

func (r *Reachability) note(ev any) {
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

// trustedEvery is between two looks at which peers have become members, or are none any more.
const trustedEvery = 5 * time.Second

// Hints are what a host asks while it runs. It is made before the rest of the Network, and whoever
// connects may have it ask at once: so nobody is trusted before New.
//
// Any peer could say that it has tried this peer's addresses, and with what success: AutoNATv2
// takes proof of neither. A few strangers that announce a run could so take the relays from a peer
// behind a router, or have a public one stop to relay and to announce its addresses. So only
// bootstrap nodes and members are asked.
type Hints struct {
	trusted atomic.Pointer[func(peer.ID) bool]
	relayed atomic.Pointer[[]multiaddr.Multiaddr]
}

// trusted says whether a peer is a bootstrap node or a member.
func (e Env) trusted(id peer.ID) bool {
	return e.Members.Has(id) || e.Dialer.IsNode(id)
}

func (h *Hints) trust(who func(peer.ID) bool) { h.trusted.Store(&who) }

// Relayed adds the addresses of relays to those that a host announces. libp2p leaves them out where
// one address is said to be reachable, which proves nothing yet.
func (h *Hints) Relayed(addrs []multiaddr.Multiaddr) []multiaddr.Multiaddr {
	if more := h.relayed.Load(); more != nil && len(*more) > 0 {
		return multiaddr.Unique(slices.Concat(addrs, *more))
	}
	return addrs
}

// Peerstore makes a host's peerstore. To AutoNATv2 only trusted peers in it seem to speak it.
func (h *Hints) Peerstore() (peerstore.Peerstore, error) {
	all, err := pstoremem.NewPeerstore()
	if err != nil {
		return nil, fmt.Errorf("making a peerstore: %w", err)
	}
	return &hintedPeers{all, all, h}, nil
}

type hintedPeers struct {
	peerstore.Peerstore
	peerstore.CertifiedAddrBook
	hints *Hints
}

// SupportsProtocols implements peerstore.ProtoBook.
func (p *hintedPeers) SupportsProtocols(id peer.ID, ids ...protocol.ID) ([]protocol.ID, error) {
	if slices.Contains(ids, autonatv2.DialProtocol) {
		if trusted := p.hints.trusted.Load(); trusted == nil || !(*trusted)(id) {
			return nil, nil
		}
	}
	return p.Peerstore.SupportsProtocols(id, ids...)
}

// watch has AutoNATv2 look again at peers that became members, or are none any more.
func (h *Hints) watch(env Env) {
	news, err := env.Host.EventBus().Emitter(new(event.EvtPeerProtocolsUpdated))
	if err != nil {
		panic(err) // it is an event
	}
	defer news.Close() //nolint:errcheck // nobody is left to tell
	was := make(map[peer.ID]bool)
	env.Tasks.Every(trustedEvery, func(time.Time) {
		now := make(map[peer.ID]bool)
		for _, id := range env.Host.Network().Peers() {
			now[id] = env.trusted(id)
			if now[id] != was[id] {
				_ = news.Emit(event.EvtPeerProtocolsUpdated{Peer: id}) // it fails once closed
			}
		}
		was = now
	})
}
