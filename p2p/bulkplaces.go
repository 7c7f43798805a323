package p2p

import (
	"net/netip"

	"github.com/multiformats/go-multiaddr"
)

// places bounds connections from peers of which nothing is known, who may have any number of IDs but hardly of networks. One site alone may
// have all places; when there are none left, others get theirs from it.
type places struct {
	limit int
	held  map[*place]struct{}
	turns uint64
}

// place is one of them.
type place struct {
	site  netip.Prefix
	turn  uint64 // places are given in this order
	busy  bool   // a stream is served
	evict func() // ends the connection. It does not wait
}

func newPlaces(limit int) places { return places{limit: limit, held: make(map[*place]struct{})} }

// take gives a place; nil if there is none to be had. The second one is another's, which has lost it.
func (p *places) take(site netip.Prefix, evict func()) (mine, lost *place) {
	if len(p.held) >= p.limit {
		if lost = p.dispensable(site); lost == nil {
			return nil, nil
		}
		delete(p.held, lost)
	}
	p.turns++
	mine = &place{site: site, turn: p.turns, evict: evict}
	p.held[mine] = struct{}{}
	return mine, lost
}

// leave gives a place back, if it was not lost before.
func (p *places) leave(held *place) { delete(p.held, held) }

// dispensable is a place of the site that has most, one without a stream before others, and of these the oldest. It goes only for a site that
// has fewer, and one with a stream only if that has no more with it; within a site those without a stream go.
func (p *places) dispensable(newcomer netip.Prefix) (worst *place) {
	bySite := make(map[netip.Prefix]int)
	for held := range p.held {
		bySite[held.site]++
	}
	for held := range p.held {
		has, own := bySite[held.site], bySite[newcomer]
		goes := !held.busy && (has > own || held.site == newcomer) || has > own+1
		if goes && (worst == nil || held.before(worst, bySite)) {
			worst = held
		}
	}
	return worst
}

// before says whether a place goes before another one.
func (p *place) before(other *place, bySite map[netip.Prefix]int) bool {
	switch a, b := bySite[p.site], bySite[other.site]; {
	case a != b:
		return a > b
	case p.busy != other.busy:
		return !p.busy
	default:
		return p.turn < other.turn
	}
}

// siteOf is the network that an address is in, as small as one is given out: who has one address there may have all.
func siteOf(a multiaddr.Multiaddr) netip.Prefix {
	ip := ipOf(a)
	bits := 48
	if ip.Is4() {
		bits = 24
	}
	site, err := ip.Prefix(bits)
	if err != nil {
		return netip.Prefix{} // no address: all of these are one site
	}
	return site
}
