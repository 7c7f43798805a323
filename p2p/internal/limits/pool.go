package limits

import (
	"net/netip"
	"sync"
)

// Pool bounds connections from peers of which nothing is known. Such peers may have any number of
// IDs but hardly of networks. One site alone may hold all leases; when there are none left, other
// sites get theirs from it.
type Pool struct {
	limit int
	mu    sync.Mutex // guards what follows, and what is busy
	held  map[*Lease]struct{}
	given uint64
}

// Lease is a place of one connection. Nothing comes of the calls of a nil one.
type Lease struct {
	pool   *Pool
	busy   bool // a stream is served
	site   netip.Prefix
	number uint64 // leases are numbered in the order in which they are given
	evict  func() // ends the connection. It does not wait
}

// NewPool has so many leases.
func NewPool(limit int) *Pool { return &Pool{limit: limit, held: make(map[*Lease]struct{})} }

// Held is how many leases are given now.
func (p *Pool) Held() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.held)
}

// Take gives a lease; nil if there is none to be had. It may evict another connection for it.
func (p *Pool) Take(site netip.Prefix, evict func()) *Lease {
	p.mu.Lock()
	mine, lost := p.grant(site, evict)
	p.mu.Unlock()
	if lost != nil {
		lost.evict()
	}
	return mine
}

// grant gives a lease, and says which one was lost for that. mu is held.
func (p *Pool) grant(site netip.Prefix, evict func()) (mine, lost *Lease) {
	if len(p.held) >= p.limit {
		if lost = p.dispensable(site); lost == nil {
			return nil, nil
		}
		delete(p.held, lost)
	}
	p.given++
	mine = &Lease{pool: p, site: site, number: p.given, evict: evict}
	p.held[mine] = struct{}{}
	return mine, lost
}

// Return gives a lease back, if it was not lost before.
func (l *Lease) Return() {
	if l != nil {
		l.pool.mu.Lock()
		defer l.pool.mu.Unlock()
		delete(l.pool.held, l)
	}
}

// SetBusy says whether a stream is served now.
func (l *Lease) SetBusy(busy bool) {
	if l != nil {
		l.pool.mu.Lock()
		defer l.pool.mu.Unlock()
		l.busy = busy
	}
}

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
		goes := !held.busy && (has > own || held.site == newcomer) || has > own+1
		if goes && (worst == nil || held.goesBefore(worst, bySite)) {
			worst = held
		}
	}
	return worst
}

// goesBefore says whether a lease goes before another one.
func (l *Lease) goesBefore(other *Lease, bySite map[netip.Prefix]int) bool {
	switch a, b := bySite[l.site], bySite[other.site]; {
	case a != b:
		return a > b
	case l.busy != other.busy:
		return !l.busy
	default:
		return l.number < other.number
	}
}
