package step

import (
	"fmt"
	"slices"
	"time"
)

// phases are the parts of an outer step, in order: each ends where the next one begins.
var phases = [...]string{
	"encode",  // pseudo-gradient and encode
	"plan",    // offer to plan
	"reduce",  // plan to last segment
	"hold",    // draft to HAVEs
	"certify", // propose to certificate
	"apply",   // certificate to applied
	"load",    // anchor loaded
}

// Sample is one slot on one peer, in seconds: each phase, and at last the whole, their sum.
type Sample [len(phases) + 1]float64

func (s Sample) whole() float64 { return s[len(phases)] }

// sampleOf divides a slot on a peer into its phases. ok is false if the slot went on without this
// peer.
//
// What the leader saw was seen in another process. Where it comes out of order, because a message
// was quicker than the note of it, the phase between is empty.
func sampleOf(m *marks, l lead) (s Sample, ok bool) {
	if m == nil || !m.Contributed {
		return s, false
	}
	moments := []time.Time{
		m.Trained, m.Offered, m.Planned, l.Drafted, l.Proposed, m.Certified, m.Applied, m.Loaded,
	}
	if slices.ContainsFunc(moments, time.Time.IsZero) {
		return s, false
	}
	last := moments[len(moments)-1]
	for i := 1; i < len(moments); i++ {
		before, at := moments[i-1], &moments[i]
		if at.Before(before) {
			*at = before
		} else if at.After(last) {
			*at = last
		}
		s[i-1] = at.Sub(before).Seconds()
	}
	s[len(phases)] = last.Sub(moments[0]).Seconds()
	return s, s.whole() > 0
}

// samplesOf are the samples of all slots that count, on all peers; missed is how many there are no
// samples of.
func samplesOf(slots uint64, peers []answer) (all []Sample, missed int) {
	leads := map[string]lead{}
	for _, p := range peers {
		for record, l := range p.Leads {
			if was, is := leads[record]; !is || l.Proposed.Before(was.Proposed) {
				leads[record] = l
			}
		}
	}
	for slot := uint64(warmUps + 1); slot <= warmUps+slots; slot++ {
		for _, p := range peers {
			m := p.Slots[slot]
			var l lead
			if m != nil {
				l = leads[m.Record]
			}
			s, ok := sampleOf(m, l)
			if !ok {
				missed++
				continue
			}
			all = append(all, s)
		}
	}
	return all, missed
}

// checkRoots returns an error if two peers have had different states after a slot.
func checkRoots(peers []answer) error {
	roots := map[uint64]string{}
	for _, p := range peers {
		for slot, m := range p.Slots {
			switch {
			case m.Root == "":
			case roots[slot] == "":
				roots[slot] = m.Root
			case roots[slot] != m.Root:
				return fmt.Errorf("after slot %d two peers hold different models: state roots %s and %s", slot,
					roots[slot], m.Root)
			}
		}
	}
	return nil
}
