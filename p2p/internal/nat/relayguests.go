package nat

import (
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
)

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

// take gives a peer a place, or keeps it the one that it has, and says whether there was one.
func (g *guests) take(p peer.ID, site string, rules guestRules, now time.Time) bool {
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

// clear forgets all: a relay that ends keeps none.
func (g *guests) clear() {
	g.mu.Lock()
	defer g.mu.Unlock()
	clear(g.mu.held)
}

// guestRules are those of this relay.
func (r *Relay) guestRules() guestRules {
	members := len(r.env.Members.List()) + len(r.listed)
	return guestRules{
		members: members,
		member:  func(p peer.ID) bool { return r.listed[p] || r.env.Members.Has(p) },
		here:    func(p peer.ID) bool { return r.env.Host.Network().Connectedness(p) == network.Connected },
	}
}
