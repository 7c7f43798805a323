package chaos

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
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
func (a *assault) checkLeftOut() Check {
	if a.attack.outUnder == 0 {
		return Check{Name: CheckLeftOut, OK: true}
	}
	var faults []string
	longest, most := uint64(0), 0
	for _, foe := range a.foes {
		spans, out := a.leftOut(foe), uint64(0)
		for _, s := range slices.Concat(spans...) {
			out = max(out, s.last-s.after)
		}
		times := a.timesFailed(foe)
		if times >= timesOut && out < outFor(times) {
			faults = append(faults, fmt.Sprintf("%s failed so often that it should have been left out %d times, and "+
				"was left out of %d slots at most", foe.ID, times, out))
		}
		longest, most = max(longest, out), max(most, times)
		for _, slot := range a.deedSlots(foe, "") {
			// who is late with its slot may take it for the next one
			if allHave(spans, slot) && allHave(spans, slot-1) {
				faults = append(faults, fmt.Sprintf("all leave %s out of slot %d, and it did something there", foe.ID,
					slot))
			}
		}
	}
	if most < timesOut && len(faults) == 0 {
		return Check{CheckLeftOut, true, fmt.Sprintf("%sno newcomer failed so often that it is left out %d times",
			notChecked, timesOut)}
	}
	return verdict(CheckLeftOut, faults, fmt.Sprintf("of up to %d slots", longest))
}

// timesFailed is how often a newcomer should have been left out: each time after it has failed
// under so many different leaders as the attack says.
func (a *assault) timesFailed(foe *node) (times int) {
	led := map[uint64]string{}
	a.eachSlot(func(plan, commit eventlog.Line) {
		if plan.Slot == commit.Slot {
			led[commit.Slot] = plan.Leader
		}
	})
	under := map[string]bool{}
	for _, slot := range a.deedSlots(foe, "nothing") {
		if leader, known := led[slot]; known {
			under[leader] = true
		}
		if len(under) >= a.attack.outUnder {
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

// leftOut are the slots of which each honest peer has said that it leaves a hostile one out.
func (a *assault) leftOut(foe *node) (spans [][]span) {
	for _, p := range a.nodes {
		spans = append(spans, p.leftOut(foe))
	}
	return spans
}

// leftOut are the slots for which the peer has said that it leaves another one out.
func (p *node) leftOut(foe *node) (spans []span) {
	for _, l := range p.heard {
		if l.About == foe.ID && l.Until > 0 {
			spans = append(spans, span{l.Slot, l.Until})
		}
	}
	return spans
}

// deedSlots are the slots in which a hostile peer did something that is told with a word, in order.
func (a *assault) deedSlots(foe *node, word string) (slots []uint64) {
	text, err := os.ReadFile(filepath.Join(a.folder, strings.Replace(deedFiles, "*", foe.ID, 1)))
	if err != nil {
		return nil // it did nothing
	}
	for line := range strings.Lines(string(text)) {
		words := deedSlot.FindStringSubmatch(line)
		if words == nil || !strings.Contains(line, word) {
			continue
		}
		slot, _ := strconv.ParseUint(words[1], 10, 64)
		slots = append(slots, slot)
	}
	slices.Sort(slots)
	return slices.Compact(slots)
}

var deedSlot = regexp.MustCompile(`^slot (\d+): `)
