package membership

import (
	"cmp"
	"maps"
	"slices"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// Who trains on which part of the data follows from the chain alone (docs/data.md). Parts are numbered from 0, without an end. Each is in
// one place at a time:
//
//	never dealt (next and above) -> in a member's hands for a slot -> contributed: a record lists that member's contribution of it
//	                                         ^                '----> back: no record can list it any more
//	                                         '-- lowest first ---------'
//
// A part that was dealt for a slot stays with its member until then, whatever records follow. So all who hold a record agree on what was
// dealt up to it, no matter how much further they know the chain, and a newcomer that a record lists in mid-slot is dealt parts that
// nobody has.

// dealer deals parts along one chain.
type dealer struct {
	ahead uint64                   // slots beyond the open one that members are dealt parts for
	stale uint64                   // a part for slot s comes back with the record of slot s + stale
	next  uint64                   // the lowest part that was never dealt
	back  []uint64                 // parts that came back, ascending
	first uint64                   // the slot of hands[0]
	hands []map[slot.PeerID]uint64 // parts by slot and peer, not yet contributed
}

func newDealer(rules Rules) *dealer {
	return &dealer{ahead: rules.Ahead, stale: rules.MaxStaleness, first: 1}
}

// follow goes on by the chain's next record. last is the slot of the newest record that lists a peer's contribution, this one included; 0: none.
func (d *dealer) follow(r slot.Record, last func(slot.PeerID) uint64) {
	if r.Kind == slot.Step {
		d.settle(r)
	}
	for s := r.Slot + 1; s <= r.Slot+1+d.ahead; s++ {
		d.deal(s, r.Members, last)
	}
}

// settle takes from the hands what a step contributes, and what no later one can contribute.
func (d *dealer) settle(r slot.Record) {
	for _, o := range r.Contributions {
		if at := o.Base + 1; at >= d.first && at-d.first < uint64(len(d.hands)) {
			delete(d.hands[at-d.first], o.Peer)
		}
	}
	old := len(d.back)
	for len(d.hands) > 0 && d.first+d.stale <= r.Slot {
		d.back = slices.AppendSeq(d.back, maps.Values(d.hands[0]))
		d.first, d.hands = d.first+1, d.hands[1:]
	}
	if len(d.back) > old {
		slices.Sort(d.back)
	}
}

// deal gives a part for a slot to each member that has none. Those that contributed last come first, so that what has come back does
// not go from one to the other among members that never train.
func (d *dealer) deal(s uint64, members []slot.Member, last func(slot.PeerID) uint64) {
	for uint64(len(d.hands)) <= s-d.first {
		d.hands = append(d.hands, make(map[slot.PeerID]uint64, len(members)))
	}
	hands := d.hands[s-d.first]
	type claim struct {
		peer slot.PeerID
		last uint64
	}
	var claims []claim
	for _, m := range members {
		if _, has := hands[m.Peer]; !has {
			claims = append(claims, claim{m.Peer, last(m.Peer)})
		}
	}
	slices.SortStableFunc(claims, func(a, b claim) int { return cmp.Compare(b.last, a.last) }) // members are in the order of their IDs
	back := min(len(claims), len(d.back))
	for i, c := range claims {
		if i < back {
			hands[c.peer] = d.back[i]
		} else {
			hands[c.peer] = d.next
			d.next++
		}
	}
	d.back = slices.Delete(d.back, 0, back)
}

// parts are those in a peer's hands: for the open slot, Ahead beyond it, and slots not long ago that it may still contribute to.
func (d *dealer) parts(p slot.PeerID) (parts []Part) {
	for i, hands := range d.hands {
		if number, ok := hands[p]; ok {
			parts = append(parts, Part{d.first + uint64(i), number})
		}
	}
	return parts
}
