package membership

import (
	"cmp"
	"slices"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// Who trains on which part of the data follows from the chain alone (docs/data.md). Parts are numbered from 0, without an end. Each is in
// one place at a time:
//
//	never dealt (next and above) -> in a member's hands for a slot -> contributed: a record lists that member's contribution of it
//	                                         ^                '----> back: no record can list it any more, or a rest of it is left
//	                                         '----------------------------'
//
// A part that was dealt for a slot stays with its member until then, whatever records follow. So all who hold a record agree on what was
// dealt up to it, no matter how much further they know the chain, and a newcomer that a record lists in mid-slot is dealt parts that
// nobody has.

// piece is a part, or what is left of it.
type piece struct {
	part uint64
	done uint64      // steps of it that are contributed
	of   slot.PeerID // who contributed them, and goes on with the rest; none if that did not
}

// dealer deals parts along one chain.
type dealer struct {
	rules Rules
	next  uint64  // the lowest part that was never dealt
	back  []piece // ascending by part
	first uint64  // the slot of hands[0]
	hands []hands // by slot
}

// hands is who has which part for a slot, and has not contributed it: ascending by peer.
type hands []hand

type hand struct {
	peer slot.PeerID
	piece
}

func (h hands) find(p slot.PeerID) (place int, ok bool) {
	return slices.BinarySearchFunc(h, p, func(a hand, p slot.PeerID) int { return cmp.Compare(a.peer, p) })
}

func newDealer(rules Rules) *dealer { return &dealer{rules: rules, first: 1} }

// follow goes on by the chain's next record. last is the slot of the newest record that lists a peer's contribution, this one included; 0: none.
func (d *dealer) follow(r slot.Record, last func(slot.PeerID) uint64) {
	if r.Kind == slot.Step {
		d.settle(r)
	}
	for s := r.Slot + 1; s <= r.Slot+1+d.rules.Ahead; s++ {
		d.deal(s, r.Members, last)
	}
}

// settle takes from the hands what a step contributes, and what no later one can contribute.
func (d *dealer) settle(r slot.Record) {
	for _, o := range r.Contributions {
		if at := o.Base + 1; at >= d.first && at-d.first < uint64(len(d.hands)) {
			d.spend(&d.hands[at-d.first], o)
		}
	}
	for len(d.hands) > 0 && d.first+d.rules.MaxStaleness <= r.Slot {
		for _, h := range d.hands[0] {
			d.back = append(d.back, piece{part: h.part, done: h.done})
		}
		d.first, d.hands = d.first+1, d.hands[1:]
	}
	d.sort()
}

// spend takes a contribution's part from the hands. What it leaves of the part comes back.
func (d *dealer) spend(from *hands, o slot.Offer) {
	i, ok := from.find(o.Peer)
	if !ok {
		return
	}
	p := (*from)[i]
	*from = slices.Delete(*from, i, i+1)
	steps := cmp.Or(uint64(o.Steps), d.rules.Pace.InnerSteps)
	if p.done < d.rules.PartSteps && steps < d.rules.PartSteps-p.done {
		d.back = append(d.back, piece{p.part, p.done + steps, o.Peer})
	}
}

// deal gives a part for a slot to each member that has none: the lowest whose rest is its own, else the lowest that came back and is no
// other member's rest, else a new one. Those that contributed last come first, so that what has come back does not go from one to the other
// among members that never train.
func (d *dealer) deal(s uint64, members []slot.Member, last func(slot.PeerID) uint64) {
	for uint64(len(d.hands)) <= s-d.first {
		d.hands = append(d.hands, nil)
	}
	into := &d.hands[s-d.first]
	claims := into.lacking(members, last)
	if len(claims) == 0 {
		return
	}
	*into = slices.Grow(*into, len(claims))
	rests, free := d.offers(members)
	for _, p := range claims {
		got := piece{part: d.next}
		switch own := rests[p]; {
		case len(own) > 0:
			got, rests[p] = own[0], own[1:]
		case len(free) > 0:
			got, free = free[0], free[1:]
		default:
			d.next++
		}
		*into = append(*into, hand{p, got})
	}
	slices.SortFunc(*into, func(a, b hand) int { return cmp.Compare(a.peer, b.peer) })
	d.back = free
	for _, own := range rests {
		d.back = append(d.back, own...)
	}
	d.sort()
}

// lacking lists the members that have no part, those that contributed last first.
func (h hands) lacking(members []slot.Member, last func(slot.PeerID) uint64) []slot.PeerID {
	var claims []slot.PeerID
	for _, m := range members { // in the order of their IDs
		if _, has := h.find(m.Peer); !has {
			claims = append(claims, m.Peer)
		}
	}
	slices.SortStableFunc(claims, func(a, b slot.PeerID) int { return cmp.Compare(last(b), last(a)) })
	return claims
}

// offers divides what came back into members' own rests and what anybody may have.
func (d *dealer) offers(members []slot.Member) (rests map[slot.PeerID][]piece, free []piece) {
	for _, p := range d.back {
		if p.of == "" || slot.Find(members, p.of) < 0 {
			free = append(free, p)
			continue
		}
		if rests == nil {
			rests = make(map[slot.PeerID][]piece)
		}
		rests[p.of] = append(rests[p.of], p)
	}
	return rests, free
}

func (d *dealer) sort() {
	slices.SortFunc(d.back, func(a, b piece) int { return cmp.Compare(a.part, b.part) })
}

// parts are those in a peer's hands: for the open slot, Ahead beyond it, and slots not long ago that it may still contribute to.
func (d *dealer) parts(p slot.PeerID) (parts []Part) {
	for i, hands := range d.hands {
		if at, ok := hands.find(p); ok {
			parts = append(parts, Part{d.first + uint64(i), hands[at].part, hands[at].done})
		}
	}
	return parts
}
