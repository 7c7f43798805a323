package chaos

import (
	"slices"
	"time"
)

// Names of the checks that hold the histories against what the faults may cost.
const (
	CheckGivenUp  = "slots given up only where a fault may cost them"
	CheckDown     = "members lost only to faults"
	CheckIdentity = "peers keep their identity"
)

// A bill is what was done to a swarm: it says what may be lost, and when. Everything else that is
// lost is a fault of the program, and fails a check.
type bill struct {
	faults    []Injected
	byzantine bool
	last      uint64 // slot, after which peers leave
	// for how long after a fault a loss may still be due to it: the others take some time until
	// they miss a victim, and a record with it needs its turn
	late time.Duration
}

// covers says whether a fault that may cost something was under way at a time.
func (b bill) covers(at time.Time, costs func(Injected, row) bool) bool {
	return slices.ContainsFunc(b.faults, func(f Injected) bool {
		over := !f.over.IsZero() && at.After(f.over.Add(b.late))
		return !f.Missed && !at.Before(f.began) && !over && costs(f, f.Kind.row())
	})
}

// check holds a history against the bill.
func (b bill) check(h *history) []Check { return []Check{b.givenUp(h), b.down(h), b.identity(h)} }

// leastByzantine is the fewest electors of which trust byzantine lets no minority fork.
const leastByzantine = 4

// givenUp: a certified step that was given up was on a branch, which only some faults bring about;
// with trust byzantine only of few electors.
func (b bill) givenUp(h *history) Check {
	var found findings
	steps := 0
	for _, r := range h.order {
		if r.Kind != "step" || !r.abandoned {
			continue
		}
		steps++
		electors := h.forked(r).Electors // 0: no log says it
		few := electors > 0 && electors < leastByzantine
		if !b.covers(r.Time, func(_ Injected, w row) bool { return w.is(branch) && (!b.byzantine || few) }) {
			found.add("slot %d, certified at height %d as %s, was given up, and no fault may cost that", r.Slot,
				r.Height, r)
		}
	}
	return verdict(CheckGivenUp, found, "%d slots on branches", steps)
}

// down: a member that a record of the chain leaves out suffers from a fault, or lives on under
// another name.
func (b bill) down(h *history) Check {
	var found findings
	lost := 0
	var before []string
	for _, r := range h.order {
		if !r.chain || r.members == nil {
			continue
		}
		for _, id := range before {
			n, known := h.peers[id]
			if r.Slot >= b.last || slices.Contains(r.members, id) || !known {
				continue
			}
			lost++
			if !h.retired[id] && !b.covers(r.Time, func(f Injected, w row) bool {
				return w.down == everybody || w.down == victims && slices.Contains(f.Victims, n)
			}) {
				found.add("peer %d is no member at height %d (slot %d), and no fault hurt it", n, r.Height, r.Slot)
			}
		}
		before = r.members
	}
	return verdict(CheckDown, found, "%d losses", lost)
}

// identity: a peer that comes back under another ID has lost its data to a fault.
func (b bill) identity(h *history) Check {
	var found findings
	for _, c := range h.renamed {
		if !b.covers(c.at, func(f Injected, w row) bool { return w.wipes() && slices.Contains(f.Victims, c.peer) }) {
			found.add("peer %d came back as another peer, and kept its data", c.peer)
		}
	}
	return verdict(CheckIdentity, found, "%d new ones", len(h.renamed))
}
