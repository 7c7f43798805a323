package view

import (
	"fmt"
	"time"

	"github.com/p2pdiloco/p2pdiloco"
)

// Stage is how far the slot is that is under way.
type Stage struct {
	Text  string `json:"text"`
	Steps uint64 `json:"steps"` // done of the inner steps
	Of    uint64 `json:"of"`    // 0: the peer does not train, or chooses how many
	// what is left of it, by the speed until now; nil: unknown
	LeftSeconds *float64 `json:"left_s"`
}

// stageOf says how far the slot is. Where a slot is combined beside the inner steps of the next
// one, it is the inner steps that are shown, and the text has both.
func stageOf(s p2pdiloco.Status, beside *clock) *Stage {
	self, others := p2pdiloco.MemberStatus{}, []p2pdiloco.MemberStatus{}
	for _, m := range s.Members {
		if m.Self {
			self = m
		} else if m.State == "training" {
			others = append(others, m)
		}
	}
	combined := ""
	var left *float64
	if now := s.Exchange.Now; now != nil {
		combined = fmt.Sprintf("slot %d: what the peers learnt is combined and agreed on", now.Slot)
		if passed := beside.passed(now.Slot); now.Expected > passed {
			left = new((now.Expected - passed).Seconds())
		}
	}
	switch {
	case self.State == "training":
		st := trainingOf(s, self)
		if combined != "" {
			st.Text += "; beside it " + combined
		}
		return st
	case combined != "":
		return &Stage{Text: combined, LeftSeconds: left}
	}
	return waitingOf(s, others)
}

func trainingOf(s p2pdiloco.Status, self p2pdiloco.MemberStatus) *Stage {
	slot, st := s.Slot+1, &Stage{Steps: uint64(self.Steps), Of: uint64(self.Assigned)}
	if s.Task != nil {
		slot, st.Of = s.Task.Slot, uint64(s.Task.Steps)
	}
	st.Text = fmt.Sprintf("slot %d: this peer trains", slot)
	if st.Of > 0 {
		st.LeftSeconds = leftOf(st.Of, st.Steps, stepTime(self))
	}
	return st
}

// waitingOf is the stage of a peer that has nothing to do before others have trained.
func waitingOf(s p2pdiloco.Status, others []p2pdiloco.MemberStatus) *Stage {
	st := &Stage{Text: fmt.Sprintf("slot %d: this peer is ready for it", s.Slot+1)}
	if len(others) > 0 {
		st.Text = fmt.Sprintf("slot %d: %d of %d members train", s.Slot+1, len(others), len(s.Members))
	}
	for _, m := range others {
		left := leftOf(uint64(m.Assigned), uint64(m.Steps), stepTime(m))
		if left != nil && (st.LeftSeconds == nil || *left > *st.LeftSeconds) {
			st.LeftSeconds = left
		}
	}
	return st
}

// Left says how long something takes that has so many seconds left.
func Left(seconds float64) string {
	d := time.Duration(seconds * float64(time.Second))
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%.0f s left", d.Seconds())
	case d < 2*time.Hour:
		return fmt.Sprintf("%.0f min left", d.Minutes())
	}
	return fmt.Sprintf("%.1f h left", d.Hours())
}

// stepTime is how long an inner step of a member took in its newest contribution; 0: unknown.
func stepTime(m p2pdiloco.MemberStatus) time.Duration {
	if m.Contribution == nil {
		return 0
	}
	return m.Contribution.StepTime
}

// leftOf is how long the rest of some steps takes, in seconds; nil: unknown.
func leftOf(of, done uint64, step time.Duration) *float64 {
	if step <= 0 || of <= done {
		return nil
	}
	return new((time.Duration(of-done) * step).Seconds())
}
