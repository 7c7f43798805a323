package chaos

import (
	"fmt"

	"github.com/p2pdiloco/p2pdiloco/internal/eventlog"
)

// CheckStrange is the name of the check of newcomers that outnumber the founders.
const CheckStrange = "newcomers stay within their share"

// checkStrangers says whether a slot was committed with more contributions of hostile newcomers
// than the spec lets in beside the others, and whether one of them has earned a vote. Owners mark
// what points the other way only where three with a vote contribute. So a slot with fewer of these,
// as a busy machine has, may earn a stranger its vote (docs/holes.md).
func (a *assault) checkStrangers() Check {
	if !a.attack.few {
		return Check{Name: CheckStrange, OK: true}
	}
	var faults []string
	most, blind, voters := 0, false, 0
	electors, share := a.electors(), int(a.cfg.Settings().Settled().NewcomerShare)
	a.eachSlot(func(_, commit eventlog.Line) {
		n, honest := a.contributed(commit, a.foes), a.contributed(commit, a.nodes)
		seats := max(0, electors[commit.Slot]-len(a.nodes))
		most, voters = max(most, n), max(voters, seats)
		if seats > 0 && !blind {
			faults = append(faults, fmt.Sprintf("%d of them have a vote in slot %d", seats, commit.Slot))
		}
		seats = min(seats, n)
		if n-seats > max(1, (honest+seats)*share/1000) {
			faults = append(faults, fmt.Sprintf("slot %d has contributions of %d newcomers beside %d others",
				commit.Slot, n-seats, honest+seats))
		}
		blind = blind || n > 0 && honest < minHonest
	})
	if most == 0 {
		faults = append(faults, "no slot has a contribution of theirs")
	}
	fine := fmt.Sprintf("at most %d in a slot", most)
	if voters > 0 {
		fine += fmt.Sprintf("; %d earned a vote in a slot of fewer than %d founders", voters, minHonest)
	}
	return verdict(CheckStrange, faults, fine)
}

// electors says for each slot how many decided on it: those that the newest record before it left.
func (a *assault) electors() map[uint64]int {
	at := map[uint64]int{}
	for _, p := range a.nodes {
		newest := 0
		for _, l := range p.lines {
			switch l.Event {
			case "slot.planned":
				at[l.Slot] = max(at[l.Slot], newest)
			case "record.certified":
				newest = l.Electors
			}
		}
	}
	return at
}
