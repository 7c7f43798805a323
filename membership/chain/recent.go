package chain

import (
	"slices"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// recent holds the newest records, which are all that the rules look at whole: what they ask of
// older ones is in state. A copy is clipped before it follows.
type recent struct {
	window int           // how many steps it holds at most
	steps  []slot.Record // the newest steps, the oldest first
	open   []slot.Record // of the open slot: the record that it began with, and those since
}

// weightWindow is the number of step records whose contributions' weights bound those of the next.
const weightWindow = 16

func newRecent(rules Rules) recent {
	return recent{window: max(weightWindow, rules.Pace.steps(rules.MaxStaleness))}
}

// follow takes in the chain's next record.
func (v *recent) follow(r slot.Record) {
	if r.Kind == slot.Step {
		v.steps = append(slices.Clone(newest(v.steps, v.window-1)), r)
	}
	if !r.Kind.KeepsSlot() {
		v.open = nil
	}
	v.open = append(v.open, r)
}

// clip has records that are added later leave those of a copy alone.
func (v *recent) clip() { v.open = slices.Clip(v.open) }

// began returns the record with which the open slot began: the newest step, or before the first one
// the founding, or a fork above it.
func (v *recent) began() (r slot.Record) {
	switch {
	case len(v.steps) > 0:
		return v.steps[len(v.steps)-1]
	case len(v.open) > 0:
		return v.open[0]
	}
	return r
}

// lists says whether a record of the open slot has a peer among its members.
func (v *recent) lists(p slot.PeerID) bool {
	return slices.ContainsFunc(v.open, func(r slot.Record) bool { return slot.Find(r.Members, p) >= 0 })
}

// usualWeight returns the median of the weights of the newest contributions, of an even number the
// lower one in the middle; 0: there are none.
func (v *recent) usualWeight() uint64 {
	var all []slot.Offer
	for _, r := range newest(v.steps, weightWindow) {
		all = append(all, r.Contributions...)
	}
	return slot.MedianWeight(all)
}

// pace returns the pace by the newest slots.
func (v *recent) pace(rules Rules) Pace {
	return Pace{rules.Pace, newest(v.steps, rules.Pace.steps(rules.MaxStaleness))}
}

// newest returns the last n, or as many as there are.
func newest(all []slot.Record, n int) []slot.Record { return all[max(0, len(all)-n):] }
