package chain

import (
	"cmp"
	"slices"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// Which member trains on which part of the data follows from the chain alone (docs/how-to/data.md).
// Parts are numbered from 0, without an end. Each is in one place at a time:
//
//	never assigned (next and above) -> a member's share for a slot -> contributed, as a record lists
//	                                         ^                '----> back: no record can list it, or a rest is left
//	                                         '----------------------------'
//
// A part that was assigned for a slot stays with its member until then, whatever records follow. So
// all peers that hold a record agree on what was assigned up to it, no matter how much further they
// know the chain, and a newcomer that a record lists in mid-slot is assigned parts that nobody has.

// Part is a part of the data that is assigned to one member.
type Part struct {
	Slot   uint64 // the slot for which the member trains with it
	Number uint64 // from 0
	// inner steps of it that were contributed before; the round continues after them
	Done uint64
}

// piece is a part, or what is left of it.
type piece struct {
	part uint64
	done uint64 // inner steps of it that are contributed
	// the peer that contributed them and goes on with the rest; empty if no peer does
	of slot.PeerID
}

// assigner assigns parts along one chain.
type assigner struct {
	rules  Rules
	next   uint64   // the lowest part that was never assigned
	back   []piece  // ascending by part
	first  uint64   // the slot of shares[0]
	shares []shares // shares by slot
}

// shares are the members that have a part for a slot and have not contributed it, ascending by
// peer.
type shares []share

type share struct {
	peer slot.PeerID
	piece
}

func (h shares) find(p slot.PeerID) (place int, ok bool) {
	return slices.BinarySearchFunc(h, p, func(a share, p slot.PeerID) int { return cmp.Compare(a.peer, p) })
}

func newAssigner(rules Rules) *assigner { return &assigner{rules: rules, first: 1} }

func (d *assigner) clone() *assigner {
	b := *d
	b.back, b.shares = slices.Clone(d.back), slices.Clone(d.shares)
	for i, h := range b.shares {
		b.shares[i] = slices.Clone(h)
	}
	return &b
}

// follow takes in the chain's next record. last is the slot of the newest record that lists a
// peer's contribution, this one included; 0: none.
func (d *assigner) follow(r slot.Record, last func(slot.PeerID) uint64) {
	if r.Kind == slot.Step {
		d.settle(r)
	}
	for s := r.Slot + 1; s <= r.Slot+1+d.rules.Ahead; s++ {
		d.assign(s, r.Members, last)
	}
}

// settle removes from the shares what a step contributes, and what no later one can contribute.
func (d *assigner) settle(r slot.Record) {
	for _, o := range r.Contributions {
		if at := o.Base + 1; at >= d.first && at-d.first < uint64(len(d.shares)) {
			d.spend(&d.shares[at-d.first], o)
		}
	}
	for len(d.shares) > 0 && d.first+d.rules.MaxStaleness <= r.Slot {
		for _, h := range d.shares[0] {
			d.back = append(d.back, piece{part: h.part, done: h.done})
		}
		d.first, d.shares = d.first+1, d.shares[1:]
	}
	d.sort()
}

// spend removes a contribution's part from the shares. The rest of the part comes back.
func (d *assigner) spend(from *shares, o slot.Offer) {
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

// assign gives a part for a slot to each member that has none: the lowest whose rest is its own,
// else the lowest that came back and is no other member's rest, else a new one. Those that
// contributed last come first, so that what has come back does not go from one to the other among
// members that never train.
func (d *assigner) assign(s uint64, members []slot.Member, last func(slot.PeerID) uint64) {
	for uint64(len(d.shares)) <= s-d.first {
		d.shares = append(d.shares, nil)
	}
	into := &d.shares[s-d.first]
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
		*into = append(*into, share{p, got})
	}
	slices.SortFunc(*into, func(a, b share) int { return cmp.Compare(a.peer, b.peer) })
	d.back = free
	for _, own := range rests {
		d.back = append(d.back, own...)
	}
	d.sort()
}

// lacking lists the members without a part. Those that contributed to the last step come first.
func (h shares) lacking(members []slot.Member, last func(slot.PeerID) uint64) []slot.PeerID {
	var claims []slot.PeerID
	for _, m := range members { // in the order of their IDs
		if _, has := h.find(m.Peer); !has {
			claims = append(claims, m.Peer)
		}
	}
	slices.SortStableFunc(claims, func(a, b slot.PeerID) int { return cmp.Compare(last(b), last(a)) })
	return claims
}

// offers divides the parts that came back into members' own rests and those that any member may
// have.
func (d *assigner) offers(members []slot.Member) (rests map[slot.PeerID][]piece, free []piece) {
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

func (d *assigner) sort() {
	slices.SortFunc(d.back, func(a, b piece) int { return cmp.Compare(a.part, b.part) })
}

// parts returns the parts assigned to a peer: for the open slot, Ahead beyond it, and slots not
// long ago that it may still contribute to.
func (d *assigner) parts(p slot.PeerID) (parts []Part) {
	for i, s := range d.shares {
		if at, ok := s.find(p); ok {
			parts = append(parts, Part{d.first + uint64(i), s[at].part, s[at].done})
		}
	}
	return parts
}
