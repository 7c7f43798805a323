package nat

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/event"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/p2p/host/eventbus"
	"github.com/libp2p/go-libp2p/p2p/protocol/circuitv2/pb"
	"github.com/libp2p/go-libp2p/p2p/protocol/circuitv2/proto"
	"github.com/libp2p/go-libp2p/p2p/protocol/circuitv2/util"
	"github.com/multiformats/go-multiaddr"
	manet "github.com/multiformats/go-multiaddr/net"

	"github.com/p2pdiloco/p2pdiloco/internal/wire"
	"github.com/p2pdiloco/p2pdiloco/p2p/internal/peers"
)

const (
	wantedRelays  = 2 // at a time, so that one may die
	maxRelayAddrs = 4 // announced of one relay
	// of a member, whose others are known: libp2p dials one after the other
	maxMemberAddrs = 2
	// bytes, as libp2p's client allows
	maxReserveAnswer = 4 << 10
	reserveTimeout   = 15 * time.Second
	reserveRetryMin  = 15 * time.Second
	reserveRetryMax  = 10 * time.Minute
	reserveLook      = 2 * time.Second  // between looks for relays while some are wanted
	reserveRest      = 15 * time.Second // and while none is
)

// Reservations has this peer reachable through relays: members, for those that cannot connect to
// it, and bootstrap nodes while it is not known to be reachable. It is libp2p's autorelay for small
// swarms: that one takes minutes for what must be there in seconds, picks relays at random,
// announces none with a private address, and leaves one that refused alone for an hour.
//
// The addresses are announced the way autorelay's are, by an event.
type Reservations struct {
	env     Env
	reach   *Reachability
	punched *punched
	hints   *Hints
	tell    event.Emitter
	wake    peers.Signal
	told    []multiaddr.Multiaddr // of the goroutine of run
	turned  time.Time             // when a place was last given up; of the goroutine of run
	mu      struct {
		sync.Mutex
		held  map[peer.ID]reservation
		tries map[peer.ID]reserveTry
	}
}

// reservation is one that a relay gave. It ends with the connection that it was asked for on: the
// relay forgets a peer that disconnects, and at the other end of the next one may be a new process.
type reservation struct {
	conn string
	ends time.Time // by the monotonic clock of this process
}

// reserveTry is how asking a peer that refused goes on.
type reserveTry struct {
	after time.Time
	pause time.Duration
}

func newReservations(env Env, reach *Reachability, punched *punched, hints *Hints) (*Reservations, error) {
	r := &Reservations{env: env, reach: reach, punched: punched, hints: hints, wake: peers.NewSignal()}
	r.mu.held = make(map[peer.ID]reservation)
	r.mu.tries = make(map[peer.ID]reserveTry)
	var err error
	r.tell, err = env.Host.EventBus().Emitter(new(event.EvtAutoRelayAddrsUpdated), eventbus.Stateful)
	return r, err
}

func (r *Reservations) run() {
	defer r.tell.Close() //nolint:errcheck // nobody is left to tell
	defer r.env.OnConnection(func(peer.ID, bool) { r.wake.Raise() })()
	for r.env.Tasks.Context().Err() == nil {
		wait := r.round()
		select {
		case <-r.env.Tasks.Context().Done():
		case <-r.wake:
			// A peer that connected says what it speaks a moment later.
			r.env.Tasks.Sleep(reserveLook / 8)
		case <-time.After(wait):
		}
	}
}

// round drops what is lost, renews what ends soon, and asks for what is missing. It returns when to
// look again.
func (r *Reservations) round() time.Duration {
	now := time.Now()
	r.drop(now)
	r.turn(now)
	for _, id := range r.candidates(now) {
		if r.isDue(now, id) {
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
func (r *Reservations) drop(now time.Time) {
	direct := r.reach.direct()
	r.mu.Lock()
	defer r.mu.Unlock()
	for id, rsvp := range r.mu.held {
		if direct && !r.env.Members.Has(id) || now.After(rsvp.ends) || !stillOn(r.env.Host.Network(), id, rsvp.conn) ||
			!r.env.Speaks(id, proto.ProtoIDv2Hop) {
			r.giveUp(id)
		}
	}
}

// giveUp forgets a reservation. mu is held.
func (r *Reservations) giveUp(id peer.ID) {
	delete(r.mu.held, id)
	r.env.Host.ConnManager().Unprotect(id, relayTag)
}

// turn gives up a place with one member for one with another, while there is a member that this
// peer has no connection to: the two may have only one relay in common, which neither has asked.
// All members have their turn. Connections through the relay that is given up go on.
func (r *Reservations) turn(now time.Time) {
	members, candidates := r.env.Members.List(), r.candidates(now)
	apart := func(id peer.ID) bool { return !r.env.Connected(id) }
	switch {
	case !slices.ContainsFunc(members, apart):
		r.turned = time.Time{}
		return
	case r.turned.IsZero(): // others may be out of reach, too, and be noticed in a moment
		r.turned = now
	}
	if now.Sub(r.turned) < reserveRest {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	another := func(id peer.ID) bool { _, held := r.mu.held[id]; return !held }
	if len(r.mu.held) < wantedRelays || !slices.ContainsFunc(candidates, another) {
		return
	}
	r.turned = now
	for id := range r.mu.held {
		if r.env.Members.Has(id) {
			r.giveUp(id)
			r.mu.tries[id] = reserveTry{after: now.Add(time.Duration(len(members)) * reserveRest)}
			return
		}
	}
}

const relayTag = "p2pdiloco/relay"

// isDue says whether a reservation with a peer is to be asked for, as a first one or because the
// one held ends soon.
func (r *Reservations) isDue(now time.Time, id peer.ID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if rsvp, held := r.mu.held[id]; held {
		return now.Add(relayReservation / 4).After(rsvp.ends)
	}
	return len(r.mu.held) < wantedRelays
}

// candidates are those connected that may relay for this peer: members that offer it, and before
// them, while this peer is not known to be reachable, bootstrap nodes, which are there for it.
func (r *Reservations) candidates(now time.Time) (ids []peer.ID) {
	rank := make(map[peer.ID]int)
	nodes := r.env.Dialer.Nodes()
	members := r.env.Members.List()
	// not all peers ask the same members first
	rand.Shuffle(len(members), func(i, j int) { members[i], members[j] = members[j], members[i] })
	for i, id := range members {
		rank[id] = len(nodes) + r.wayRank(id)*len(members) + i
	}
	if !r.reach.direct() {
		for i, p := range nodes {
			rank[p.ID] = i
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for id := range rank {
		if now.After(r.mu.tries[id].after) && r.env.ConnectedDirectly(id) &&
			r.env.Speaks(id, proto.ProtoIDv2Hop) {
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, func(a, b peer.ID) int { return cmp.Compare(rank[a], rank[b]) })
	return ids
}

// wayRank puts members first that this peer has dialled: so can others. Last are those to which
// only a hole was punched.
func (r *Reservations) wayRank(id peer.ID) int {
	best := 2
	for _, c := range r.env.Host.Network().ConnsToPeer(id) {
		switch {
		case peers.IsRelayed(c.RemoteMultiaddr()) || r.punched.made(c):
		case c.Stat().Direction == network.DirOutbound:
			return 0
		default:
			best = 1
		}
	}
	return best
}

// reserve asks a relay.
func (r *Reservations) reserve(id peer.ID) {
	ctx, cancel := context.WithTimeout(r.env.Tasks.Context(), reserveTimeout)
	defer cancel()
	rsvp, err := r.ask(ctx, id)
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil {
		pause := min(max(2*r.mu.tries[id].pause, reserveRetryMin), reserveRetryMax)
		r.mu.tries[id] = reserveTry{time.Now().Add(pause), pause}
		r.env.Log.Debug("a peer will not relay for this one", "relay", id, "err", err)
		return
	}
	delete(r.mu.tries, id)
	r.mu.held[id] = rsvp
	r.env.Host.ConnManager().Protect(id, relayTag)
	r.env.Log.Debug("reachable through a relay", "relay", id, "for", relayReservation)
}

// ask asks a relay for a reservation. libp2p's client refuses one that has ended by this peer's
// clock, and relays say the time by theirs: where the two are an hour apart a peer behind a router
// would have no relay. Here only the time since it was given counts. Relays give an hour.
func (r *Reservations) ask(ctx context.Context, id peer.ID) (reservation, error) {
	s, err := r.env.Host.NewStream(ctx, id, proto.ProtoIDv2Hop)
	if err != nil {
		return reservation{}, err
	}
	defer context.AfterFunc(ctx, func() { _ = s.Reset() })()
	given := reservation{s.Conn().ID(), time.Now().Add(relayReservation)}
	msg := pb.HopMessage{Type: pb.HopMessage_RESERVE.Enum()}
	if err = util.NewDelimitedWriter(s).WriteMsg(&msg); err == nil {
		msg.Reset()
		in := util.NewDelimitedReader(s, maxReserveAnswer)
		err = in.ReadMsg(&msg)
		in.Close()
	}
	if err == nil && (msg.GetType() != pb.HopMessage_STATUS || msg.GetStatus() != pb.Status_OK ||
		msg.GetReservation() == nil) {
		err = fmt.Errorf("it answers %s", msg.GetStatus())
	}
	wire.End(s, err)
	return given, err
}

// relays are those through which this peer can be reached now, sorted.
func (r *Reservations) relays() []peer.ID {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Sorted(maps.Keys(r.mu.held))
}

// publish reports to the host, and so to all that are connected, under which addresses of relays
// this peer is reached, when they change.
func (r *Reservations) publish() {
	var addrs []multiaddr.Multiaddr
	for _, id := range r.relays() {
		addrs = append(addrs, r.throughRelay(id)...)
	}
	slices.SortFunc(addrs, multiaddr.Multiaddr.Compare)
	if slices.EqualFunc(addrs, r.told, multiaddr.Multiaddr.Equal) {
		return
	}
	r.told = addrs
	r.hints.relayed.Store(&addrs)
	if err := r.tell.Emit(event.EvtAutoRelayAddrsUpdated{RelayAddrs: slices.Clone(addrs)}); err != nil {
		r.env.Log.Debug("telling the addresses of relays", "err", err)
	}
}

// throughRelay are the addresses of this peer through a relay, by the relay's best own ones. Those
// of loopback are among them where there are no others.
func (r *Reservations) throughRelay(id peer.ID) (addrs []multiaddr.Multiaddr) {
	circuit, err := multiaddr.NewMultiaddr("/p2p/" + id.String() + "/p2p-circuit")
	if err != nil {
		return nil // an ID always makes an address
	}
	best := slices.DeleteFunc(r.env.Book.Best(id), peers.IsRelayed)
	if elsewhere := slices.DeleteFunc(slices.Clone(best), manet.IsIPLoopback); len(elsewhere) > 0 {
		best = elsewhere
	}
	most := maxRelayAddrs
	if r.env.Members.Has(id) {
		most = maxMemberAddrs
	}
	for _, a := range best[:min(len(best), most)] {
		addrs = append(addrs, a.Encapsulate(circuit))
	}
	return addrs
}

// stillOn says whether a certain connection to a peer is still there.
func stillOn(on network.Network, id peer.ID, conn string) bool {
	return slices.ContainsFunc(on.ConnsToPeer(id),
		func(c network.Conn) bool { return c.ID() == conn && !c.IsClosed() })
}
