package hostile

import (
	"cmp"
	"fmt"

	"github.com/p2pdiloco/p2pdiloco/internal/eventlog"
)

// CheckStrange is the name of the check of newcomers that outnumber the founders.
const CheckStrange = "newcomers stay within their share"

// minFounders are as many as strangers join: owners mark beside no fewer.
const minFounders = 3

// checkStrangers says whether a slot was committed with more contributions of hostile newcomers
// than the spec lets in beside the others, and whether one of them has earned a vote. Owners mark
// what points the other way only where three with a vote contribute. So a slot with fewer of these,
// as a busy machine has, may earn a stranger its vote (docs/holes.md).
func (s *Story) checkStrangers() Check {
	c := Check{Name: CheckStrange}
	if !s.Few {
		return c
	}
	most, blind, voters := 0, false, 0
	electors := s.electors()
	s.eachSlot(func(_ []eventlog.Line, commit eventlog.Line) {
		n, honest := s.foes(commit), s.honest(commit)
		seats := max(0, electors[commit.Slot]-len(s.Honest))
		most, voters = max(most, n), max(voters, seats)
		if seats > 0 && !blind {
			c.Faults = append(c.Faults, fmt.Sprintf("%d of them have a vote in slot %d", seats, commit.Slot))
		}
		seats = min(seats, n)
		if n-seats > max(1, (honest+seats)*s.Share/1000) {
			c.Faults = append(c.Faults, fmt.Sprintf("slot %d has contributions of %d newcomers beside %d others",
				commit.Slot, n-seats, honest+seats))
		}
		blind = blind || n > 0 && honest < minFounders
	})
	if most == 0 {
		c.Faults = append(c.Faults, "no slot has a contribution of theirs")
	}
	c.Fine = fmt.Sprintf("at most %d in a slot", most)
	if voters > 0 {
		c.Fine += fmt.Sprintf("; %d earned a vote in a slot of fewer than %d founders", voters, minFounders)
	}
	return c
}

// electors says for each slot how many decided on it: those that the newest record before it left.
func (s *Story) electors() map[uint64]int {
	at := map[uint64]int{}
	for _, p := range s.Honest {
		newest := 0
		for _, l := range p.Lines {
			newest = cmp.Or(l.Electors, newest) // of certified records
			if l.Event == "slot.planned" {
				at[l.Slot] = max(at[l.Slot], newest)
			}
		}
	}
	return at
}
