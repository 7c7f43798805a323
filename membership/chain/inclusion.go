package chain

import "github.com/p2pdiloco/p2pdiloco/internal/slot"

// includedSteps is how many of the newest steps say which electors contribute.
const includedSteps = 8

// Lately returns the electors that contributed to one of the newest 8 steps.
func (pos *position) Lately() map[slot.PeerID]struct{} {
	electors := map[slot.PeerID]struct{}{}
	for _, r := range newest(pos.recent.steps, includedSteps) {
		for _, o := range r.Contributions {
			if slot.Find(pos.Electorate(), o.Peer) >= 0 {
				electors[o.Peer] = struct{}{}
			}
		}
	}
	return electors
}

// Inclusion is which electors a step may not leave out (rule V12): else a leader that lies would
// decide the outcome with its friends. Each segment has the contributions of all but f, and one for
// each term, of the c electors that contributed to one of the newest 8 steps; and those of f+1, so
// of an honest one, if c is more than 2f. Once all electors have led the height nothing is asked:
// the trainers of too many may have stopped. So what is valid in one term is valid in all later
// ones. The zero value asks for nothing.
type Inclusion struct {
	electors map[slot.PeerID]struct{}
	least    int
}

// Inclusion returns the rule for a step that is drafted in a ballot.
func (pos *position) Inclusion(ballot uint32) (none Inclusion) {
	n, term := len(pos.Electorate()), int(slot.Ref{Ballot: ballot}.Term())
	f := pos.rules.Liars(n)
	if f == 0 || term >= n {
		return none
	}
	in := Inclusion{electors: pos.Lately()}
	if c := len(in.electors); c > 2*f {
		in.least = max(c-f-term, f+1)
	} else {
		in.least = c - f - term
	}
	return in
}

// Holds says whether a set of some offers has enough of the electors.
func (in Inclusion) Holds(offers []slot.Offer, set slot.Bitmap) bool {
	n := 0
	for i, o := range offers {
		if _, contributes := in.electors[o.Peer]; contributes && set.Has(i) {
			n++
		}
	}
	return n >= in.least
}

// LoneSteps counts those of the newest steps to which no more electors contributed than may lie.
func (pos *position) LoneSteps() (n int) {
	f := pos.rules.Liars(len(pos.Electorate()))
	for _, r := range pos.recent.steps {
		electors := 0
		for _, o := range r.Contributions {
			if slot.Find(pos.Electorate(), o.Peer) >= 0 {
				electors++
			}
		}
		if electors <= f {
			n++
		}
	}
	return n
}
