package chain

import (
	"math"
	"slices"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// overlong is how many times as long as the usual ones a contribution may be that earns credit.
// Honest ones are far from it; peers call such values too large (allreduce/figures).
const overlong = 8

// creditAfter returns the credit that the next record leaves to a member. A contribution earns it
// where it is in the sets of at least half of the elements, weighs something there, and is not
// overlong: whoever sends values without measure stays a newcomer.
func (pos *position) creditAfter(record slot.Record) func(slot.Member) uint16 {
	if record.Kind != slot.Step {
		return func(m slot.Member) uint16 { return m.Credit }
	}
	elements := make([]uint64, len(record.Contributions)) // in whose sets each contributor is
	all := uint64(0)
	counted := map[string][]int{} // by set: most segments have the same one
	for _, s := range record.Segments {
		all += s.Range.Len()
		places, known := counted[string(s.Contributors)]
		if !known {
			places = pos.rules.counted(record, s)
			counted[string(s.Contributors)] = places
		}
		for _, i := range places {
			elements[i] += s.Range.Len()
		}
	}
	earns, most := map[slot.PeerID]bool{}, pos.longest(record.Contributions)
	for i, o := range record.Contributions {
		earns[o.Peer] = 2*elements[i] >= all && o.NormSq <= most
	}
	return func(m slot.Member) uint16 {
		if earns[m.Peer] {
			return min(m.Credit+contributionCredit, mostCredit)
		}
		return max(m.Credit, 1) - 1
	}
}

// counted returns the places of the contributions that weigh something in a segment of a record.
func (r Rules) counted(record slot.Record, s slot.Segment) (places []int) {
	var offers []slot.Offer
	var at []int
	for i, o := range record.Contributions {
		if s.Contributors.Has(i) {
			offers, at = append(offers, o), append(at, i)
		}
	}
	for i, w := range r.weighing(record.Usual).Weights(offers) {
		if w > 0 {
			places = append(places, at[i])
		}
	}
	return places
}

// longest returns the largest squared norm of a contribution that earns credit: overlong times the
// median of those by members that are no newcomers, of an even number the lower one in the middle.
// If there are none of these, all count. There is no bound where that median is 0, or where a peer
// shows a step that nobody contributed to: it is refused later.
func (pos *position) longest(contributions []slot.Offer) float64 {
	var settled, all []float64
	for _, o := range contributions {
		all = append(all, o.NormSq)
		if _, is := isNewcomer(pos.tip, o.Peer); !is {
			settled = append(settled, o.NormSq)
		}
	}
	if len(settled) == 0 {
		settled = all
	}
	if len(settled) == 0 {
		return math.Inf(1)
	}
	slices.Sort(settled)
	if middle := settled[(len(settled)-1)/2]; middle > 0 {
		return overlong * overlong * middle
	}
	return math.Inf(1)
}
