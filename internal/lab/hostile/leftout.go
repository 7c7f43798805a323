package hostile

import (
	"fmt"
	"slices"
	"strings"

	"github.com/p2pdiloco/p2pdiloco/internal/eventlog"
)

// CheckLeftOut is the name of the check of newcomers that fail again and again.
const CheckLeftOut = "who fails is left out for longer"

// A newcomer that has failed so often that it should have been left out timesOut times is to have
// been left out of as many slots as the time before the last one costs, and mostOut at most.
const (
	timesOut = 3
	mostOut  = 16
)

// outFor is for how many slots a newcomer is to have been left out that has failed so often.
func outFor(times int) uint64 { return uint64(min(1<<min(times-2, 10), mostOut)) }

// span are the slots after one up to another.
type span struct{ after, last uint64 }

func (s span) has(slot uint64) bool { return s.after < slot && slot <= s.last }

// checkLeftOut says whether newcomers that fail again and again are left out of more and more
// slots, and whether nobody needs anything of one that all leave out.
func (s *Story) checkLeftOut() Check {
	c := Check{Name: CheckLeftOut}
	if s.OutUnder == 0 {
		return c
	}
	longest, most := uint64(0), 0
	for _, foe := range s.Foes {
		spans, out := s.leftOut(foe), uint64(0)
		for _, at := range slices.Concat(spans...) {
			out = max(out, at.last-at.after)
		}
		times := s.timesFailed(foe)
		if times >= timesOut && out < outFor(times) {
			c.Faults = append(c.Faults, fmt.Sprintf("%s failed so often that it should have been left out %d times, and "+
				"was left out of %d slots at most", foe, times, out))
		}
		longest, most = max(longest, out), max(most, times)
		for _, n := range s.deedSlots(foe, "") {
			// who is late with its slot may take it for the next one
			if allHave(spans, n) && allHave(spans, n-1) {
				c.Faults = append(c.Faults, fmt.Sprintf("all leave %s out of slot %d, and it did something there", foe, n))
			}
		}
	}
	c.Fine = fmt.Sprintf("of up to %d slots", longest)
	if most < timesOut {
		c.Fine = fmt.Sprintf("%sno newcomer failed so often that it is left out %d times", NotChecked, timesOut)
	}
	return c
}

// timesFailed is how often a newcomer should have been left out: each time after it has failed
// under so many different leaders as the attack says.
func (s *Story) timesFailed(foe string) (times int) {
	led := map[uint64]string{}
	s.eachSlot(func(plans []eventlog.Line, commit eventlog.Line) {
		if n := len(plans); n > 0 {
			led[commit.Slot] = plans[n-1].Leader
		}
	})
	under := map[string]bool{}
	for _, n := range s.deedSlots(foe, "nothing") {
		if leader, known := led[n]; known {
			under[leader] = true
		}
		if len(under) >= s.OutUnder {
			times++
			clear(under)
		}
	}
	return times
}

// allHave says whether each peer leaves another one out of a slot.
func allHave(spans [][]span, slot uint64) bool {
	return !slices.ContainsFunc(spans, func(its []span) bool {
		return !slices.ContainsFunc(its, func(s span) bool { return s.has(slot) })
	})
}

// leftOut are the slots for which each honest peer has said that it leaves a hostile one out.
func (s *Story) leftOut(foe string) (all [][]span) {
	for _, p := range s.Honest {
		var spans []span
		for _, l := range p.Lines {
			if l.About == foe && l.Until > 0 {
				spans = append(spans, span{l.Slot, l.Until})
			}
		}
		all = append(all, spans)
	}
	return all
}

// deedSlots are the slots in which a hostile peer did something that is told with a word, in order.
func (s *Story) deedSlots(foe, word string) (slots []uint64) {
	for deed := range strings.Lines(Deeds(s.Folder, foe)) {
		var n uint64
		if _, err := fmt.Sscanf(deed, "slot %d:", &n); err == nil && strings.Contains(deed, word) {
			slots = append(slots, n)
		}
	}
	slices.Sort(slots)
	return slices.Compact(slots)
}
