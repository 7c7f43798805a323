package round

import (
	"github.com/p2pdiloco/p2pdiloco/membership"
	"github.com/p2pdiloco/p2pdiloco/spec"
)

// paced returns how many inner steps to do in a round for a slot, from the anchor of the one
// before.
func (l *Loop) paced(v membership.View, slotNumber uint64) int {
	h, base := l.spec.InnerSteps, slotNumber-1
	switch l.spec.Pace {
	case spec.PaceDyLU:
		steps := v.Pace.Steps(l.self, base)
		// this peer is slower than the records know, and the others should not wait until they show
		// it
		if own := l.rate.micros(); own > 0 {
			steps = min(steps, v.Pace.StepsAt(own, base))
		}
		return int(steps)
	case spec.PaceDeadline:
		l.rate.seen(v.Tip.Slot + 1)
		step := l.rate.median()
		if step == 0 {
			return int(max(1, h/4))
		}
		return int(min(max(1, l.rate.left(slotNumber, l.spec.RoundDuration())/step), spec.MaxSteps))
	}
	return l.spec.Interval(slotNumber)
}
