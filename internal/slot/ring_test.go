package slot

import (
	"slices"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/internal/wire"
)

// The order of sums: by peer in rotation, from the one after the owner in a ring; who does not
// contribute is passed over.
func TestOrder(t *testing.T) {
	for _, c := range []struct {
		ring  []uint16
		owner int
		in    byte
		want  []int
	}{
		{nil, 2, 0b11111, []int{0, 1, 2, 3, 4}},
		{nil, 0, 0b10110, []int{1, 2, 4}},
		{[]uint16{3, 0, 2, 4, 1}, 2, 0b11111, []int{4, 1, 3, 0, 2}},
		{[]uint16{3, 0, 2, 4, 1}, 1, 0b11111, []int{3, 0, 2, 4, 1}},
		{[]uint16{3, 0, 2, 4, 1}, 3, 0b01011, []int{0, 1, 3}},
	} {
		p := Plan{Offers: make([]Offer, 5), Ring: c.ring}
		if got := p.Order(c.owner, Bitmap{c.in}); !slices.Equal(got, c.want) {
			t.Errorf("ring %v, owner %d, in %b: %v, want %v", c.ring, c.owner, c.in, got, c.want)
		}
	}
}

// Who is gone is passed over: then others are neighbours, and it is another round.
func TestCircle(t *testing.T) {
	p := Plan{Offers: make([]Offer, 5), Ring: []uint16{3, 0, 2, 4, 1}, Gone: NewBitmap(5)}
	before := p.Round()
	if !p.Beside(0, 2) || !p.Beside(3, 1) || p.Beside(0, 4) || p.Beside(2, 2) {
		t.Error("the neighbours are wrong")
	}
	p.Gone = NewBitmap(5)
	p.Gone.Set(2)
	if got := p.Circle(); !slices.Equal(got, []int{3, 0, 4, 1}) {
		t.Errorf("the circle is %v", got)
	}
	if !p.Beside(0, 4) || !p.Beside(4, 0) || p.Beside(0, 2) {
		t.Error("the neighbours are wrong without 2")
	}
	if p.Round() == before || before == (Root{}) {
		t.Error("another circle has the same round")
	}
	divided := p
	divided.Pieces = []Piece{{Range: Range{End: 4}}}
	if divided.Round() == p.Round() {
		t.Error("another division has the same round")
	}
	p.Ring = nil
	if p.Round() != (Root{}) || p.Circle() != nil || p.Beside(0, 1) {
		t.Error("a rotation has a circle")
	}
}

func TestHostileRings(t *testing.T) {
	for _, ring := range [][]uint16{{0}, {0, 0}, {0, 2}, {0, 1, 1}, {65535, 1}} {
		p := Plan{Offers: []Offer{{Peer: "a"}, {Peer: "b"}}, Ring: ring}
		r := wire.NewReader(p.Append(nil))
		ReadPlan(r)
		if r.Done() == nil {
			t.Errorf("ring %v of two is taken", ring)
		}
	}
}

// A speed comes back within a quarter of a doubling, and never as another kind of word.
func TestLinkSpeeds(t *testing.T) {
	last := LinkDirect
	for speed := uint32(1); speed < 1<<31; speed += 1 + speed/7 {
		l := LinkOf(speed)
		if r := l.Way(true); !r.Relayed() || r.Speed() != l.Speed() || l.Relayed() || r.Way(false) != l ||
			l.Way(false) != l {
			t.Fatalf("%d kB/s through a relay are link %d, directly %d", speed, r, l)
		}
		if got := l.Speed(); l < last || got > float64(speed)*1.0001 || got*1.19 < float64(speed) {
			t.Fatalf("%d kB/s comes back as %v, link %d after %d", speed, got, l, last)
		}
		last = l
	}
	if LinkOf(0) != LinkDirect || LinkDirect.Speed() != 0 || LinkOf(1<<32-1) < last || LinkOf(1<<32-1).Relayed() ||
		LinkUnknown.Way(true).Way(false) != LinkDirect {
		t.Error("the ends of the scale are wrong")
	}
}

func TestBetween(t *testing.T) {
	const fast, slow = Link(60), Link(40)
	const relayed, slowRelayed = LinkDirect | linkRelayed, slow | linkRelayed
	for _, c := range [][3]Link{
		{LinkUnknown, LinkUnknown, LinkUnknown},
		{LinkNone, LinkNone, LinkNone},
		{LinkNone, LinkDirect, LinkDirect}, // one liar closes no way
		{LinkNone, LinkUnknown, LinkNone},
		{LinkUnknown, LinkNone, LinkNone},
		{LinkDirect, LinkNone, LinkDirect},
		{LinkDirect, fast, fast},
		{slow, fast, slow},
		{LinkUnknown, slow, slow},
		{relayed, relayed, relayed},
		{slowRelayed, LinkUnknown, slowRelayed},
		{LinkUnknown, slowRelayed, slowRelayed},
		{LinkNone, relayed, relayed},
		{slow, relayed, slowRelayed},
		{relayed, fast, fast | linkRelayed},
	} {
		ls := Links{Ways: [][]Link{{LinkUnknown, c[0]}, {c[1], LinkUnknown}}}
		if got := ls.Between(0, 1); got != c[2] {
			t.Errorf("%d and %d join to %d, want %d", c[0], c[1], got, c[2])
		}
	}
	if (Links{}).Between(3, 4) != LinkUnknown {
		t.Error("nothing known is something")
	}
}
