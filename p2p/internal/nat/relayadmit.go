package nat

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/multiformats/go-multiaddr"

	"github.com/p2pdiloco/p2pdiloco/p2p/internal/peers"
)

const (
	// for the hello that shows whether a peer is of a run that is served
	relayAsk      = 5 * time.Second
	relayRefused  = 30 * time.Second
	relayAdmitted = time.Hour

	maxRelayAsked   = 4096              // peers that are being asked, or whose answer is kept
	maxRelayAskedAt = maxRelayAsked / 8 // of them at one address
)

// questions are whether peers are of a run that is served. IDs cost nothing: an address that comes
// with many loses its own answers first, and then the oldest of all are forgotten, which costs no
// more than asking again.
type questions struct {
	mu struct {
		sync.Mutex
		of map[peer.ID]*question
	}
}

type question struct {
	site     string        // that the peer came from
	answered chan struct{} // closed then
	yes      bool          // once answered
	until    time.Time     // that the answer counts; zero: there is none yet
}

// ask says hello to a peer as one of each run that is given by name, and remembers how that went.
// Many at once ask once.
func (r *Relay) ask(p peer.ID, from multiaddr.Multiaddr) bool {
	if len(r.cfg.Relay.Runs) == 0 {
		return false
	}
	q, mine := r.asked.find(p, peers.Subscriber(from), time.Now())
	if q == nil {
		return false
	}
	if mine {
		r.asked.answer(q, r.isOfRun(p), time.Now())
	}
	select {
	case <-q.answered:
		return q.yes
	case <-r.env.Tasks.Context().Done():
		return false
	}
}

func (r *Relay) isOfRun(p peer.ID) bool {
	return slices.ContainsFunc(r.cfg.Relay.Runs, func(run string) bool {
		ctx, cancel := context.WithTimeout(r.env.Tasks.Context(), relayAsk)
		defer cancel()
		err := r.env.IsOfRun(ctx, p, run)
		if err != nil {
			r.env.Log.Debug("a peer that would use the relay is not of the run", "peer", p, "run", run, "err", err)
		}
		return err == nil
	})
}

// find is what was asked of a peer, or a new question, which the caller asks and answers. It is nil
// where too many wait for an answer.
func (qs *questions) find(p peer.ID, site string, now time.Time) (q *question, mine bool) {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	if q = qs.mu.of[p]; q != nil && (q.until.IsZero() || now.Before(q.until)) {
		return q, false
	}
	delete(qs.mu.of, p)
	if !qs.room(site) {
		return nil, false
	}
	if qs.mu.of == nil {
		qs.mu.of = make(map[peer.ID]*question)
	}
	q = &question{site: site, answered: make(chan struct{})}
	qs.mu.of[p] = q
	return q, true
}

func (qs *questions) answer(q *question, yes bool, now time.Time) {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	q.yes, q.until = yes, now.Add(relayRefused)
	if yes {
		q.until = now.Add(relayAdmitted)
	}
	close(q.answered)
}

// room forgets an answer where there are too many, the one that counts for the shortest time, and
// says whether there is room then. mu is held.
func (qs *questions) room(site string) bool {
	var own, oldest peer.ID
	at := 0
	first := func(best, p peer.ID, q *question) peer.ID {
		if q.until.IsZero() || best != "" && !q.until.Before(qs.mu.of[best].until) {
			return best
		}
		return p
	}
	for p, q := range qs.mu.of {
		oldest = first(oldest, p, q)
		if q.site == site {
			at++
			own = first(own, p, q)
		}
	}
	switch {
	case at >= maxRelayAskedAt:
		delete(qs.mu.of, own)
		return own != ""
	case len(qs.mu.of) >= maxRelayAsked:
		delete(qs.mu.of, oldest)
		return oldest != ""
	}
	return true
}

// guests are the peers that may be reached through a relay at a time. libp2p's relay takes them
// first come first served, and has bounds for whole IPv6 addresses, of which anybody has any
// number. Here members go before strangers: for each of them a place is kept, up to half of all.
// Strangers at one address (IPv6: the /56) have half of all at most.
type guests struct {
	limit int
	mu    struct {
		sync.Mutex
		held map[peer.ID]guest
	}
}

type guest struct {
	site  string
	until time.Time
}

// guestRules are how a relay sees peers.
type guestRules struct {
	members int // there are so many
	member  func(peer.ID) bool
	here    func(peer.ID) bool // it is connected: a relay forgets a peer that is not
}

// admit gives a peer a place, or keeps it the one that it has, and says whether there was one.
func (g *guests) admit(p peer.ID, site string, rules guestRules, now time.Time) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	all, strangers, atSite := 0, 0, 0
	for other, held := range g.mu.held {
		switch {
		case other == p || now.After(held.until) || !rules.here(other):
			delete(g.mu.held, other)
			continue
		case !rules.member(other):
			strangers++
			if held.site == site {
				atSite++
			}
		}
		all++
	}
	kept := min(rules.members, g.limit/2)
	if all >= g.limit || !rules.member(p) && (strangers >= g.limit-kept || atSite >= max(1, g.limit/2)) {
		return false
	}
	if g.mu.held == nil {
		g.mu.held = make(map[peer.ID]guest)
	}
	g.mu.held[p] = guest{site, now.Add(relayReservation)}
	return true
}

// guestRules are those of this relay.
func (r *Relay) guestRules() guestRules {
	members := len(r.env.Members.List()) + len(r.listed)
	return guestRules{
		members: members,
		member:  func(p peer.ID) bool { return r.listed[p] || r.env.Members.Has(p) },
		here:    r.env.Connected,
	}
}
