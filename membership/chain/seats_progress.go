package chain

import "github.com/p2pdiloco/p2pdiloco/internal/slot"

// Progress is how far a member without a seat is on its way to one.
type Progress struct {
	Contributions int // accepted ones that its credit stands for, at most Needed
	Needed        int // so many are enough
	// members beside it that have to have earned a seat, too, before one gets it; 0: none
	Others int
	Full   bool // all seats are taken: it has to have twice the credit of an elector
}

// ProgressOf returns a member's way to a seat by the newest record. It returns false for an
// elector, for a peer that is not listed, and where each member has a seat.
func (r Rules) ProgressOf(tip slot.Record, p slot.PeerID) (way Progress, ok bool) {
	i := slot.Find(tip.Members, p)
	if i < 0 || tip.Members[i].Elects() {
		return Progress{}, false
	}
	n, need := len(tip.Electors()), seatCredit
	if n < firstSeats {
		need = firstSeatCredit
	}
	way.Needed = need / contributionCredit
	lacks := max(0, need-int(tip.Members[i].Credit))
	way.Contributions = way.Needed - (lacks+contributionCredit-1)/contributionCredit
	way.Full = r.full(n)
	if n >= fullSeats && !way.Full {
		way.Others = seatsAbove(n) - n - 1
		for j, m := range tip.Members {
			if j != i && !m.Elects() && m.Credit >= seatCredit {
				way.Others--
			}
		}
		way.Others = max(0, way.Others)
	}
	return way, true
}
