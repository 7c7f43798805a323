package p2p

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/event"
	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"
	"github.com/libp2p/go-libp2p/p2p/host/eventbus"
	"github.com/libp2p/go-libp2p/p2p/protocol/circuitv2/client"
	"github.com/libp2p/go-libp2p/p2p/protocol/circuitv2/proto"
	"github.com/multiformats/go-multiaddr"
)

const (
	wantedRelays    = 2 // at a time, so that one may die
	maxRelayAddrs   = 4 // told of one relay
	reserveTimeout  = 15 * time.Second
	reserveRetryMin = 15 * time.Second
	reserveRetryMax = 10 * time.Minute
	reserveLook     = 2 * time.Second  // between looks for relays while some are wanted
	reserveRest     = 15 * time.Second // and while none is
)

// reservations have this peer reachable through relays while it is not known to be reachable by itself: with bootstrap nodes and members that
// relay. It is libp2p's autorelay for small swarms: that one takes minutes for what must be there in seconds, picks relays at random, tells
// none with a private address, and leaves one that refused alone for an hour.
//
// What the others are told goes the way autorelay's does, by an event.
type reservations struct {
	n    *Network
	tell event.Emitter
	wake chan struct{}
	told []multiaddr.Multiaddr // of the goroutine of run
	mu   struct {
		sync.Mutex
		held  map[peer.ID]reservation
		tries map[peer.ID]reserveTry
	}
}

// reservation is one that a relay gave. It ends with the connection that it was asked for on: the relay forgets whoever disconnects, and at the
// other end of the next one may be a new process.
type reservation struct {
	*client.Reservation
	conn string
}

// reserveTry is how asking a peer that refused goes on.
type reserveTry struct {
	after time.Time
	pause time.Duration
}

func newReservations(n *Network) (*reservations, error) {
	r := &reservations{n: n, wake: make(chan struct{}, 1)}
	r.mu.held = make(map[peer.ID]reservation)
	r.mu.tries = make(map[peer.ID]reserveTry)
	var err error
	r.tell, err = n.host.EventBus().Emitter(new(event.EvtAutoRelayAddrsUpdated), eventbus.Stateful)
	return r, err
}

// look has the loop look at once.
func (r *reservations) look() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

func (r *reservations) run() {
	defer r.tell.Close() //nolint:errcheck // nobody is left to tell
	defer r.n.events.subscribe(func(peer.ID, bool) { r.look() })()
	for r.n.ctx.Err() == nil {
		wait := r.round()
		timer := time.NewTimer(wait)
		select {
		case <-r.n.ctx.Done():
		case <-r.wake:
			// Whoever connected says what it speaks a moment later.
			r.pause(reserveLook / 8)
		case <-timer.C:
		}
		timer.Stop()
	}
}

func (r *reservations) pause(d time.Duration) {
	select {
	case <-r.n.ctx.Done():
	case <-time.After(d):
	}
}

// round drops what is lost, renews what ends soon, and asks for what is missing. It returns when to look again.
func (r *reservations) round() time.Duration {
	now := time.Now()
	r.drop(now)
	if r.n.reachable.public() {
		r.publish()
		return reserveRest
	}
	for _, id := range r.candidates(now) {
		if r.missing(now, id) {
			r.reserve(id)
		}
	}
	r.publish()
	if len(r.relays()) < wantedRelays {
		return reserveLook
	}
	return reserveRest
}

// drop forgets reservations that have ended, and those with peers that relay no more.
func (r *reservations) drop(now time.Time) {
	public := r.n.reachable.public()
	r.mu.Lock()
	defer r.mu.Unlock()
	for id, rsvp := range r.mu.held {
		if public || now.After(rsvp.Expiration) || !r.n.stillOn(id, rsvp.conn) || !r.n.speaks(id, proto.ProtoIDv2Hop) {
			delete(r.mu.held, id)
			r.n.host.ConnManager().Unprotect(id, relayTag)
		}
	}
}

const relayTag = "p2pdiloco/relay"

// missing says whether a reservation with a peer is to be asked for, as a first one or because the one held ends soon.
func (r *reservations) missing(now time.Time, id peer.ID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if rsvp, held := r.mu.held[id]; held {
		return now.Add(relayReservation / 4).After(rsvp.Expiration)
	}
	return len(r.mu.held) < wantedRelays
}

// candidates are those connected that may relay for this peer: bootstrap nodes and members that offer it, those first that are there for it.
func (r *reservations) candidates(now time.Time) (ids []peer.ID) {
	rank := make(map[peer.ID]int)
	for i, id := range r.n.protectedPeers() {
		rank[id] = maxBootstrap + i
	}
	for i, p := range r.n.boot.nodes() {
		rank[p.ID] = i
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for id := range rank {
		if now.After(r.mu.tries[id].after) && r.n.connectedDirectly(id) && r.n.speaks(id, proto.ProtoIDv2Hop) {
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, func(a, b peer.ID) int { return cmp.Compare(rank[a], rank[b]) })
	return ids
}

// reserve asks a relay.
func (r *reservations) reserve(id peer.ID) {
	ctx, cancel := context.WithTimeout(r.n.ctx, reserveTimeout)
	defer cancel()
	h := &endingHost{Host: r.n.host}
	rsvp, err := client.Reserve(ctx, h, peer.AddrInfo{ID: id})
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil {
		pause := min(max(2*r.mu.tries[id].pause, reserveRetryMin), reserveRetryMax)
		r.mu.tries[id] = reserveTry{time.Now().Add(pause), pause}
		r.n.log.Debug("a peer will not relay for this one", "relay", id, "err", err)
		return
	}
	delete(r.mu.tries, id)
	r.mu.held[id] = reservation{rsvp, h.conn}
	r.n.host.ConnManager().Protect(id, relayTag)
	r.n.log.Debug("reachable through a relay", "relay", id, "until", rsvp.Expiration)
}

// endingHost is a host whose streams end with the context that they were opened with: the relay client would wait a minute. It remembers on
// which connection the last one was.
type endingHost struct {
	host.Host
	conn string
}

// NewStream implements host.Host.
func (h *endingHost) NewStream(ctx context.Context, p peer.ID, ids ...protocol.ID) (network.Stream, error) {
	s, err := h.Host.NewStream(ctx, p, ids...)
	if err == nil {
		h.conn = s.Conn().ID()
		context.AfterFunc(ctx, func() { _ = s.Reset() })
	}
	return s, err
}

// relays are those through which this peer can be reached now, sorted.
func (r *reservations) relays() (ids []peer.ID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for id := range r.mu.held {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// publish tells the host, and so everybody connected, under which addresses of relays this peer is reached, when they change.
func (r *reservations) publish() {
	var addrs []multiaddr.Multiaddr
	for _, id := range r.relays() {
		addrs = append(addrs, r.throughRelay(id)...)
	}
	slices.SortFunc(addrs, multiaddr.Multiaddr.Compare)
	if slices.EqualFunc(addrs, r.told, multiaddr.Multiaddr.Equal) {
		return
	}
	r.told = addrs
	if err := r.tell.Emit(event.EvtAutoRelayAddrsUpdated{RelayAddrs: slices.Clone(addrs)}); err != nil {
		r.n.log.Debug("telling the addresses of relays", "err", err)
	}
}
