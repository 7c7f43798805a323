package limits

import (
	"net/netip"
	"testing"
)

func site(i int) netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i), 0, 0}), 24)
}

// taker gives leases to sites, and counts how many each site has.
type taker struct {
	t     *testing.T
	p     *Pool
	has   map[netip.Prefix]int
	order []*Lease
}

func newTaker(t *testing.T, limit int) *taker {
	return &taker{t: t, p: NewPool(limit), has: make(map[netip.Prefix]int)}
}

func (k *taker) take(i int, busy bool) (mine, lost *Lease) {
	mine, lost = k.p.grant(site(i), nil)
	if lost != nil {
		k.has[lost.site]--
	}
	if mine != nil {
		mine.SetBusy(busy)
		k.has[mine.site]++
		k.order = append(k.order, mine)
	}
	if len(k.p.held) > k.p.limit {
		k.t.Errorf("%d leases of %d are held", len(k.p.held), k.p.limit)
	}
	return mine, lost
}

// TestPoolIsShared: a site that has all loses to one that has none, down to equal shares. Streams
// go last, and never for a site that has as many.
func TestPoolIsShared(t *testing.T) {
	k := newTaker(t, 8)
	for range 8 {
		if mine, lost := k.take(0, true); mine == nil || lost != nil {
			t.Fatal("a place was refused while there were some")
		}
	}
	if mine, _ := k.take(0, true); mine != nil {
		t.Error("a site with all places took a stream's place of its own")
	}
	for i := range 4 {
		if mine, lost := k.take(1, true); mine == nil || lost != k.order[i] {
			t.Errorf("place %d of a site that has fewer: %v for %v, want the oldest of the other", i, mine, lost)
		}
	}
	if mine, _ := k.take(1, true); mine != nil || k.has[site(0)] != 4 || k.has[site(1)] != 4 {
		t.Errorf("shares of %v", k.has)
	}
	if mine, lost := k.take(2, false); mine == nil || lost.site == site(2) {
		t.Error("a third site got nothing")
	}
}

// TestLeasesWithoutStreamsGoFirst, and not those of a site that has fewer than the newcomer's.
func TestLeasesWithoutStreamsGoFirst(t *testing.T) {
	k := newTaker(t, 6)
	for range 2 {
		k.take(0, true)
	}
	older, _ := k.take(0, false)
	k.take(0, false)
	small, _ := k.take(1, false)
	k.take(0, true)
	if _, lost := k.take(0, false); lost != older {
		t.Errorf("%+v went, want the site's own oldest without a stream", lost)
	}
	for range 2 {
		if mine, lost := k.take(0, true); mine == nil || lost == small {
			t.Errorf("%+v went for a site that has more", lost)
		}
	}
	if mine, lost := k.take(0, true); mine != nil {
		t.Errorf("%+v went for a site that has more", lost)
	}
	small.Return()
	if mine, lost := k.take(0, true); mine == nil || lost != nil {
		t.Error("a place that was left is not given")
	}
}
