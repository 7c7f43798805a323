package report

import (
	"testing"

	"github.com/p2pdiloco/p2pdiloco/membership"
)

// Only a peer that has the run's final model says that it has ended, without more.
func TestPhasesOfTheEnd(t *testing.T) {
	for want, v := range map[Phase]membership.View{
		PhaseEnded:            {Ending: membership.EndsAsRun},
		PhaseEndedProvisional: {Ending: membership.EndsProvisional},
		PhaseEndedBranch:      {Ending: membership.EndsAsBranch},
		PhaseEndedMissed:      {Missed: true},
	} {
		if got, _ := PhaseOf(v, 1); got != want {
			t.Errorf("%v: want %v", got, want)
		}
	}
}
