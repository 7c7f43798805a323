package chain

import "github.com/p2pdiloco/p2pdiloco/internal/slot"

// leastJudges is the fewest that can say which way is the usual one: of two, either may be wrong.
const leastJudges = 3

// Judges returns which of the offers are by members with a vote, where votes are earned. Their
// values say what points the other way (slot.Segment.Against). Newcomers do not say it: they would
// speak for each other. It is empty where these are fewer than leastJudges.
func (pos *position) Judges(offers []slot.Offer) slot.Bitmap {
	if !pos.rules.Byzantine {
		return nil
	}
	judges := slot.NewBitmap(len(offers))
	for i, o := range offers {
		if slot.Find(pos.Electorate(), o.Peer) >= 0 {
			judges.Set(i)
		}
	}
	if judges.Count() < leastJudges {
		return nil
	}
	return judges
}

// CheckMarks says whether a segment may mark contributors as it does.
func (r Rules) CheckMarks(s slot.Segment) error {
	if !s.MarksFit() || len(s.Against) > 0 && !r.Byzantine {
		return Invalid("marks of %d bytes over the %d contributors of elements %d to %d", len(s.Against),
			s.Contributors.Count(), s.Range.Begin, s.Range.End)
	}
	return nil
}
