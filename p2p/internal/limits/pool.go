package limits

import "net/netip"

// Pool bounds connections from peers of which nothing is known. Such peers may have any number of
// IDs but hardly of networks. One site alone may hold all leases; when there are none left, other
// sites get theirs from it. Its owner locks it.
type Pool struct {
	limit int
	held  map[*Lease]struct{}
	given uint64
}

// Lease is a place of one connection.
type Lease struct {
	Busy   bool // a stream is served
	site   netip.Prefix
	number uint64 // leases are numbered in the order in which they are given
	evict  func() // ends the connection. It does not wait
}

// Evict ends the connection of a lease that was lost.
func (l *Lease) Evict() { l.evict() }

// NewPool has so many leases.
func NewPool(limit int) *Pool { return &Pool{limit: limit, held: make(map[*Lease]struct{})} }

// Limit is how many leases there are.
func (p *Pool) Limit() int { return p.limit }

// Take gives a lease; nil if there is none to be had. The second one is that of another connection,
// which has lost it and is to be evicted.
func (p *Pool) Take(site netip.Prefix, evict func()) (mine, lost *Lease) {
	if len(p.held) >= p.limit {
		if lost = p.dispensable(site); lost == nil {
			return nil, nil
		}
		delete(p.held, lost)
	}
	p.given++
	mine = &Lease{site: site, number: p.given, evict: evict}
	p.held[mine] = struct{}{}
	return mine, lost
}

// Return gives a lease back, if it was not lost before.
func (p *Pool) Return(l *Lease) { delete(p.held, l) }

// dispensable is a lease of the site that has most, one without a stream before others, and of
// these the oldest. It goes only for a site that has fewer, and one with a stream only if that site
// has no more with the new one; within a site those without a stream go.
func (p *Pool) dispensable(newcomer netip.Prefix) (worst *Lease) {
	bySite := make(map[netip.Prefix]int)
	for held := range p.held {
		bySite[held.site]++
	}
	for held := range p.held {
		has, own := bySite[held.site], bySite[newcomer]
		goes := !held.Busy && (has > own || held.site == newcomer) || has > own+1
		if goes && (worst == nil || held.before(worst, bySite)) {
			worst = held
		}
	}
	return worst
}

// before says whether a lease goes before another one.
func (l *Lease) before(other *Lease, bySite map[netip.Prefix]int) bool {
	switch a, b := bySite[l.site], bySite[other.site]; {
	case a != b:
		return a > b
	case l.Busy != other.Busy:
		return !l.Busy
	default:
		return l.number < other.number
	}
}
