package nat

import (
	"cmp"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/p2p/protocol/circuitv2/relay"
	"github.com/multiformats/go-multiaddr"
	manet "github.com/multiformats/go-multiaddr/net"

	"github.com/p2pdiloco/p2pdiloco/p2p/internal/limits"
	"github.com/p2pdiloco/p2pdiloco/p2p/internal/peers"
)

const (
	relayBuffer      = 32 << 10 // bytes, each way of a relayed connection
	relayCircuits    = 1024     // relayed connections of one peer
	guestCircuits    = 16       // that one which is neither a member nor served by name may open
	relayReservation = time.Hour
	relayDuration    = 12 * time.Hour // of one relayed connection; peers make another one then
)

// Relay is what this peer does as a relay: libp2p's relay service, under our own rules of which
// peers may use it and how much of it. libp2p's bounds are for each connection, so a peer gets
// round them by connecting again; and a connection with such bounds is a limited one, on which most
// protocols open no streams. Ours are a rate of all together (limits.Bucket), and what is
// relayed is metered on its way (meteredHost): to libp2p these connections have no limits.
type Relay struct {
	env Env
	cfg Config
	// of all together, and of those that are neither members nor listed: half of it
	rate, guestRate *limits.Bucket
	share           int  // bytes that are let through at a time
	bounded         bool // what members send each other, too: by this peer's own rates
	listed          map[peer.ID]bool
	asked           questions
	guests          guests
	// streams of the relay's, by the peer at the other end. A circuit has one with either: with the
	// peer that opened it, and with the one that it leads to
	opened, reached circuits
	service         atomic.Pointer[relay.Relay] // nil: not serving
}

// relayShare is the part of Config.MaxUpload and MaxDownload, one in so many, that a peer relays
// for others at most: what is relayed does not wait for its own bytes.
const relayShare = 4

func newRelay(env Env, cfg Config) *Relay {
	cfg.Relay.Total = totalOf(cfg)
	r := &Relay{env: env, cfg: cfg, listed: make(map[peer.ID]bool)}
	total := r.cfg.Relay.Total
	r.rate, r.guestRate = limits.NewBucket(total), limits.NewBucket((total+1)/2)
	r.guests.limit = r.cfg.Relay.Reservations
	r.bounded = cfg.MaxUpload > 0 || cfg.MaxDownload > 0
	r.share = meterShare
	if total > 0 { // little enough for many streams to have their turns within what bytes may wait
		r.share = int(min(max(total/64, meterLeast), meterShare))
	}
	for _, s := range r.cfg.Relay.Peers {
		if id, err := peer.Decode(s); err == nil { // Validate has refused what does not parse
			r.listed[id] = true
		}
	}
	return r
}

// totalOf is Total, but no more than the peer's own bounds allow.
func totalOf(cfg Config) int64 {
	total := cfg.Relay.Total
	for _, bound := range []int64{cfg.MaxUpload, cfg.MaxDownload} {
		if most := bound / relayShare; most > 0 && (total == 0 || total > most) {
			total = most
		}
	}
	return total
}

// open starts to serve, if this peer does.
func (r *Relay) open() error {
	if !r.cfg.Relay.Serve {
		return nil
	}
	service, err := relay.New(&meteredHost{Host: r.env.Host, r: r},
		relay.WithResources(relay.Resources{
			ReservationTTL: relayReservation, MaxCircuits: relayCircuits, BufferSize: relayBuffer,
			// Guests decides which peers have a place. libp2p may forget one a moment later.
			MaxReservations: 2 * r.cfg.Relay.Reservations, MaxReservationsPerIP: 2 * r.cfg.Relay.Reservations,
			MaxReservationsPerASN: 2 * r.cfg.Relay.Reservations,
		}),
		relay.WithACL(r),
		relay.WithReservationAddressFilter(func(a multiaddr.Multiaddr) bool { return !manet.IsIPLoopback(a) }),
	)
	if err != nil {
		return fmt.Errorf("starting to relay: %w", err)
	}
	r.service.Store(service)
	return nil
}

// AllowReserve implements relay.ACLFilter: may a peer be reached through here?
func (r *Relay) AllowReserve(p peer.ID, from multiaddr.Multiaddr) bool {
	if !r.mayUse(p, from) {
		return false
	}
	if !r.guests.admit(p, peers.Subscriber(from), r.guestRules(), time.Now()) {
		r.env.Log.Info("not relaying for a peer: all places are taken, or kept for members", "peer", p, "from", from)
		return false
	}
	return true
}

// AllowConnect implements relay.ACLFilter: may a peer connect to one that has a reservation?
func (r *Relay) AllowConnect(src peer.ID, from multiaddr.Multiaddr, to peer.ID) bool {
	if r.isGuest(src) && r.crowds(src, to) {
		r.env.Log.Info("not relaying more connections of a peer that is no member", "peer", src, "from", from, "to", to)
		return false
	}
	if now := time.Now(); !r.env.Members.Has(src) && (r.rate.Busy(now) || r.isGuest(src) && r.guestRate.Busy(now)) {
		r.env.Log.Info("not relaying for one peer more: too much waits already", "peer", src, "from", from)
		return false
	}
	return r.mayUse(src, from)
}

// crowds says whether a guest has opened its share of circuits, or would take one to a peer that
// is kept for a member. Those that others open to a peer cost it none of its own: strangers would
// cut a newcomer off by connecting to it.
func (r *Relay) crowds(guest, to peer.ID) bool {
	most := relayCircuits / 2
	if r.isGuest(to) {
		most = guestCircuits
	}
	// the stream on which it is asked is one that the guest opened
	return r.opened.count(guest) > guestCircuits || r.reached.count(to) >= most
}

func (r *Relay) mayUse(p peer.ID, from multiaddr.Multiaddr) bool {
	if !r.serves(p, from) {
		r.env.Log.Debug("not relaying for a peer that is of no run served here", "peer", p)
		return false
	}
	return true
}

// isGuest says whether a peer is served less well than members and those given by name, where there
// are any.
func (r *Relay) isGuest(p peer.ID) bool {
	return !r.listed[p] && !r.env.Members.Has(p) && (len(r.listed) > 0 || len(r.env.Members.List()) > 0)
}

// circuits counts streams by peer.
type circuits struct {
	mu struct {
		sync.Mutex
		of map[peer.ID]int
	}
}

// add counts a stream until the function returned is called, once or more often.
func (c *circuits) add(id peer.ID) (ended func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.of == nil {
		c.mu.of = make(map[peer.ID]int)
	}
	c.mu.of[id]++
	return sync.OnceFunc(func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.mu.of[id]--; c.mu.of[id] == 0 {
			delete(c.mu.of, id)
		}
	})
}

func (c *circuits) count(id peer.ID) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mu.of[id]
}

// serves says whether a peer is one of those that this relay is for.
func (r *Relay) serves(p peer.ID, from multiaddr.Multiaddr) bool {
	return r.cfg.Relay.Open || r.listed[p] || r.env.Members.Has(p) || r.env.Greeted.Has(p, time.Now()) || r.ask(p, from)
}

// close ends the service. What it relays has ended with the task group.
func (r *Relay) close() {
	if service := r.service.Swap(nil); service != nil {
		_ = service.Close() // the host's own end follows
	}
}

// RelayConfig says whether and for which peers a peer relays what two others that cannot connect
// send each other, and within which bounds.
//
// Served are the peers of this peer's runs: members, and those whose hello was accepted here
// (Hello, SetHello). A node that is in no run itself is given the runs by name: it says hello to
// peers that ask, and serves those that answer as peers of the run.
type RelayConfig struct {
	// Serve has the peer relay at all.
	Serve bool
	// Runs are the names of runs whose peers are served, besides those of this peer's own.
	Runs []string
	// Peers are IDs of peers that are served in any case.
	Peers []string
	// Open serves everybody.
	Open bool
	// Total is the bytes a second of all together. 0: no bound.
	Total int64
	// Reservations is how many peers at a time may be reached through here. Default 256.
	Reservations int
}

// Defaults of RelayConfig, for nodes that are there for it.
const (
	defaultRelayReservations = 256
	maxRelayNames            = 256
)

// MemberRelay is the RelayConfig for members of a run. They relay for each other without these
// bounds, and for newcomers with less than a node that is there for it.
func MemberRelay() RelayConfig {
	return RelayConfig{Serve: true, Total: 5_000_000}
}

// WithDefaults fills in what is not set.
func (c RelayConfig) WithDefaults() RelayConfig {
	c.Reservations = cmp.Or(c.Reservations, defaultRelayReservations)
	return c
}

// Validate reports every fault of a config with defaults at once.
func (c RelayConfig) Validate() error {
	var errs []error
	bad := func(wrong bool, format string, args ...any) {
		if wrong {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	for _, run := range c.Runs {
		bad(run == "" || len(run) > limits.MaxRunName, "relaying for run %.40q: give a name of 1 to %d bytes", run,
			limits.MaxRunName)
	}
	for _, id := range c.Peers {
		_, err := peer.Decode(id)
		bad(err != nil, "relaying for peer %q: %w; give a peer ID like 12D3Koo…", id, err)
	}
	bad(len(c.Runs) > maxRelayNames || len(c.Peers) > maxRelayNames,
		"relaying for %d runs and %d peers: at most %d of each can be named", len(c.Runs), len(c.Peers), maxRelayNames)
	bad(c.Total < 0 || c.Total > 0 && c.Total < limits.MinRate,
		"relaying %d bytes a second in all: at least %d, or 0 for no bound", c.Total, limits.MinRate)
	bad(c.Reservations < 1, "relaying to %d peers: at least 1", c.Reservations)
	return errors.Join(errs...)
}
