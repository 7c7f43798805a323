package discovery

import (
	"math/rand/v2"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
)

const (
	rejoinEvery = 30 * time.Second // between two rounds of dials
	// dials begun in one round, one of them to whoever was lost last: 50 members that are gone for
	// good cost eight dials a minute
	rejoinAtOnce = 3
	rejoinFirst  = rejoinEvery // pause after the first failure; doubles
	// rejoinMost is where that ends. A cut network that is whole again comes together after it.
	rejoinMost = 2 * time.Minute
)

// rejoiner dials the members, and those that were members, that are not connected, for as long as
// they are remembered. Nothing else does that once a network has been cut for half an hour: libp2p
// has forgotten the addresses of the other side by then, and announcements of it in the DHT have
// ended, while this side has each other and does not look alone. In trust crash both sides would go
// on as two runs.
type rejoiner struct {
	env    Env
	book   *addressBook
	isNode func(peer.ID) bool // bootstrap nodes are dialled anyway
	tries  map[peer.ID]rejoinTry
}

// rejoinTry is how dialling one peer goes on.
type rejoinTry struct {
	pause time.Duration // after the last dial
	next  time.Time     // it is not dialled before
}

func newRejoiner(env Env, book *addressBook, isNode func(peer.ID) bool) *rejoiner {
	return &rejoiner{
		env: env, book: book, isNode: isNode, tries: make(map[peer.ID]rejoinTry),
	}
}

func (r *rejoiner) run() {
	for r.env.Tasks.Context().Err() == nil {
		// all peers of a run may have been started, or cut off, at one moment
		r.env.Tasks.Sleep(jittered(rejoinEvery))
		for _, id := range r.due(time.Now()) {
			r.env.Tasks.Go(func() { r.dial(id) })
		}
	}
}

// due are the peers to be dialled in this round. The first is a member, or else the former one that
// was lost last: the other half of a network that is cut is not behind all that have ever left. The
// others are those dialled longest ago. Where nobody is connected the bootstrapper dials all that
// are remembered.
func (r *rejoiner) due(now time.Time) (ids []peer.ID) {
	if len(r.env.Host.Network().Peers()) == 0 {
		return nil
	}
	missed := r.book.missed()
	r.forgetThoseBack(missed)
	for len(ids) < rejoinAtOnce {
		best, found := r.pick(missed, now, len(ids) > 0)
		if !found {
			break
		}
		pause := min(max(2*r.tries[best].pause, rejoinFirst), rejoinMost)
		r.tries[best] = rejoinTry{pause, now.Add(jittered(pause))}
		ids = append(ids, best)
	}
	return ids
}

// pick is one of the missed peers that may be dialled now: the first, or that whose turn it is, the
// one dialled longest ago.
func (r *rejoiner) pick(missed []peer.ID, now time.Time, inTurn bool) (best peer.ID, found bool) {
	for _, id := range missed {
		next := r.tries[id].next
		switch {
		case r.isNode(id) || next.After(now):
		case !inTurn:
			return id, true
		case !found || next.Before(r.tries[best].next):
			best, found = id, true
		}
	}
	return best, found
}

// forgetThoseBack drops what was noted of peers that are not missed any more. Where one of them has
// connected, the others may be back as well: their pauses begin anew.
func (r *rejoiner) forgetThoseBack(missed []peer.ID) {
	still := make(map[peer.ID]rejoinTry, len(missed))
	for _, id := range missed {
		if t, tried := r.tries[id]; tried {
			still[id] = t
		}
	}
	back := len(still) < len(r.tries)
	r.tries = still
	if !back {
		return
	}
	for id, t := range r.tries {
		r.tries[id] = rejoinTry{next: t.next.Add(-t.pause)}
	}
}

// dial tries the addresses that a connection has shown, and then what others say.
func (r *rejoiner) dial(id peer.ID) {
	addrs, shown := r.book.addrs(id)
	if shown && r.env.Host.Network().Connectedness(id) == network.NotConnected {
		// hundreds of false ones would be dialled first
		r.env.Host.Peerstore().ClearAddrs(id)
	}
	r.env.Dialer.ForgetFailures(id)
	p := peer.AddrInfo{ID: id, Addrs: addrs}
	if err := r.env.Dialer.Connect(r.env.Tasks.Context(), p); err != nil {
		r.env.Log.Debug("a remembered member does not answer", "peer", id, "err", err)
	}
}

// jittered is between half of a time and all of it.
func jittered(d time.Duration) time.Duration { return d - rand.N(d/2) }
