package chain

import (
	"math"
	"slices"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// overlong is how many times as long as the usual ones a contribution may be that earns credit.
// Honest ones are far from it; peers call such values too large (allreduce/figures).
const overlong = 8

// creditAfter returns the credit that the next record leaves to a member. A contribution counts
// where it is in a segment's set, weighs something, and is not marked as against the others
// (slot.Segment.Against). One that is overlong earns nothing: whoever sends values without measure
// stays a newcomer. One that is marked in more than half of the elements takes away as much as
// another one earns: what is marked at random earns nothing in the long run, and honest values
// that are marked now and then earn more than they lose.
func (pos *position) creditAfter(record slot.Record) func(slot.Member) uint16 {
	if record.Kind != slot.Step {
		return func(m slot.Member) uint16 { return m.Credit }
	}
	elements := make([]uint64, len(record.Contributions)) // in whose sets each contributor is
	against, all := Against(record), uint64(0)
	counted := map[string][]int{} // by set: most segments have the same one
	for _, s := range record.Segments {
		all += s.Range.Len()
		places, known := counted[string(s.Contributors)]
		if !known {
			places = pos.rules.counted(record, s)
			counted[string(s.Contributors)] = places
		}
		marked := s.Marked()
		for _, i := range places {
			if !marked.Has(i) {
				elements[i] += s.Range.Len()
			}
		}
	}
	earns, most := map[slot.PeerID]earned{}, pos.longest(record.Contributions)
	for i, o := range record.Contributions {
		earns[o.Peer] = earned{2*elements[i] >= all && o.NormSq <= most, against.Has(i)}
	}
	judged := pos.judged(record)
	return func(m slot.Member) uint16 {
		switch e := earns[m.Peer]; {
		case e.accepted && !judged && slot.Find(pos.Electorate(), m.Peer) < 0:
			return min(m.Credit+unjudgedCredit, mostCredit)
		case e.accepted:
			return min(m.Credit+contributionCredit, mostCredit)
		case e.against:
			return max(m.Credit, contributionCredit) - contributionCredit
		}
		return max(m.Credit, 1) - 1
	}
}

// unjudgedCredit is what a step that too few judge earns a member without a vote: a member with one
// that stays away must not keep all others from theirs.
const unjudgedCredit = 1

// judged says whether a member without a vote may earn all of a contribution's credit in a step.
// Where leastJudges members with a vote have credit, so many have to contribute: nothing is marked
// where fewer do, and below fullSeats one contribution earns a vote.
func (pos *position) judged(step slot.Record) bool {
	able, judges := 0, 0
	for _, e := range pos.Electorate() {
		contributes := slices.ContainsFunc(step.Contributions, func(o slot.Offer) bool { return o.Peer == e.Peer })
		if contributes {
			judges++
		}
		if contributes || e.Credit > 0 {
			able++
		}
	}
	return judges >= leastJudges || able < leastJudges
}

// Against returns which contributions to a step are marked in more than half of the elements.
func Against(step slot.Record) slot.Bitmap {
	marked, whole := make([]uint64, len(step.Contributions)), uint64(0)
	for _, s := range step.Segments {
		whole += s.Range.Len()
		against := s.Marked()
		for i := range marked {
			if against.Has(i) {
				marked[i] += s.Range.Len()
			}
		}
	}
	all := slot.NewBitmap(len(marked))
	for i, n := range marked {
		if 2*n > whole {
			all.Set(i)
		}
	}
	return all
}

// earned says what a contribution is worth to its member.
type earned struct{ accepted, against bool }

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
