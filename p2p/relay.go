package p2p

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/p2p/protocol/circuitv2/relay"
	"github.com/multiformats/go-multiaddr"
	manet "github.com/multiformats/go-multiaddr/net"
)

const (
	relayBuffer      = 32 << 10 // bytes, each way of a relayed connection
	relayCircuits    = 1024     // relayed connections of one peer
	relayReservation = time.Hour
)

// relaying is what this peer does as a relay: libp2p's relay service, under our own rules of who may use it and how much of it. libp2p's
// bounds are for each connection, so they are got round by connecting again; and a connection with such bounds is a limited one, on which most
// protocols open no streams. Ours are of peers and addresses (allowances), and what is relayed is metered on its way (meteredHost): to libp2p
// these connections have no limits.
type relaying struct {
	n       *Network
	cfg     RelayConfig
	allowed *allowances
	share   int // bytes that are let through at a time
	listed  map[peer.ID]bool
	asked   questions
	guests  guests
	carried carried
	mu      struct {
		sync.Mutex
		closed  bool
		service *relay.Relay // nil: not serving
		streams map[*meteredStream]struct{}
	}
}

// relayShare is the part of Config.MaxUpload and MaxDownload, one in so many, that a peer relays for others at most: what is relayed does not wait for its own bytes.
const relayShare = 4

func newRelaying(n *Network) *relaying {
	r := &relaying{n: n, cfg: n.cfg.Relay, listed: make(map[peer.ID]bool)}
	for _, bound := range []int64{n.cfg.MaxUpload, n.cfg.MaxDownload} {
		if most := bound / relayShare; most > 0 && (r.cfg.Total == 0 || r.cfg.Total > most) {
			r.cfg.Total = most
		}
	}
	r.allowed = newAllowances(r.cfg.Rate, r.cfg.Total, r.cfg.Day)
	r.guests.limit = r.cfg.Reservations
	r.share = shareOf(r.cfg.Rate, r.cfg.Total)
	for _, s := range r.cfg.Peers {
		if id, err := peer.Decode(s); err == nil { // Validate has refused what does not parse
			r.listed[id] = true
		}
	}
	r.mu.streams = make(map[*meteredStream]struct{})
	return r
}

// shareOf is little enough for many streams to have their turns within relayPatience, whatever the rates.
func shareOf(rate, total int64) int {
	if total > 0 {
		rate = min(rate, total)
	}
	return int(min(max(rate/64, meterLeast), meterShare))
}

// set starts or stops to serve.
func (r *relaying) set(reachable bool) error {
	serve := r.cfg.Serve == RelayAlways || r.cfg.Serve == RelayAuto && reachable
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.mu.closed || serve == (r.mu.service != nil):
		return nil
	case !serve:
		err := r.mu.service.Close()
		r.mu.service = nil
		r.guests.clear()
		return err
	}
	service, err := relay.New(&meteredHost{Host: r.n.host, r: r},
		relay.WithResources(relay.Resources{
			ReservationTTL: relayReservation, MaxCircuits: relayCircuits, BufferSize: relayBuffer,
			// Who has a place is decided by guests. libp2p may forget one a moment later.
			MaxReservations: 2 * r.cfg.Reservations, MaxReservationsPerIP: 2 * r.cfg.Reservations, MaxReservationsPerASN: 2 * r.cfg.Reservations,
		}),
		relay.WithACL(r),
		relay.WithReservationAddressFilter(func(a multiaddr.Multiaddr) bool { return !manet.IsIPLoopback(a) }),
	)
	if err != nil {
		return fmt.Errorf("starting to relay: %w", err)
	}
	r.mu.service = service
	return nil
}

// serving says whether this peer relays for others now.
func (r *relaying) serving() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.mu.service != nil
}

// AllowReserve implements relay.ACLFilter: may a peer be reached through here?
func (r *relaying) AllowReserve(p peer.ID, from multiaddr.Multiaddr) bool {
	if !r.mayUse(p, from) {
		return false
	}
	if !r.guests.take(p, subscriberOf(from), r.guestRules(), time.Now()) {
		r.n.log.Info("not relaying for a peer: all places are taken, or kept for members", "peer", p, "from", from)
		return false
	}
	return true
}

// AllowConnect implements relay.ACLFilter: may a peer connect to one that has a reservation?
func (r *relaying) AllowConnect(src peer.ID, from multiaddr.Multiaddr, _ peer.ID) bool {
	if r.allowed.busy(time.Now()) {
		r.n.log.Info("not relaying for one peer more: too much waits already", "peer", src, "from", from)
		return false
	}
	return r.mayUse(src, from)
}

func (r *relaying) mayUse(p peer.ID, from multiaddr.Multiaddr) bool {
	if !r.serves(p, from) {
		r.n.log.Debug("not relaying for a peer that is of no run served here", "peer", p)
		return false
	}
	if r.allowed.spent(p, from, time.Now()) {
		r.n.log.Info("not relaying for a peer that has used up its day", "peer", p, "from", from)
		return false
	}
	return true
}

// serves says whether a peer is one of those that this relay is for.
func (r *relaying) serves(p peer.ID, from multiaddr.Multiaddr) bool {
	return r.cfg.Open || r.listed[p] || r.n.isProtected(p) || r.n.greeted.has(p, time.Now()) || r.ask(p, from)
}

// enter takes a stream under the relay's care; false when that is closed.
func (r *relaying) enter(s *meteredStream) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.mu.closed {
		r.mu.streams[s] = struct{}{}
	}
	return !r.mu.closed
}

func (r *relaying) leave(s *meteredStream) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.mu.streams, s)
}

// close ends the service and all that it relays.
func (r *relaying) close() (err error) {
	r.mu.Lock()
	r.mu.closed = true
	streams := slices.Collect(maps.Keys(r.mu.streams))
	if r.mu.service != nil {
		err = r.mu.service.Close()
		r.mu.service = nil
	}
	r.mu.Unlock()
	for _, s := range streams {
		_ = s.Reset()
	}
	return err
}
