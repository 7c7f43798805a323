package chaos

import (
	"strings"
	"testing"
	"time"
)

// TestBackInTime: what is started again, and does not take part for so long that load is no excuse,
// fails the run; what is only later than the goal does not.
func TestBackInTime(t *testing.T) {
	for _, c := range []struct {
		name    string
		kind    Kind
		seconds float64
		load    float64
		met, ok bool
	}{
		{"at once", Restart, 1, 0, true, true},
		{"later than the goal", Kill, 5, 0.5, false, true},
		{"as late as a fork", Restart, 20, 0, false, false},
		{"the bootstrap node", Bootstrap, 20, 1, false, false},
		{"late on a busy machine", Restart, 20, 2, false, true},
		{"later than its load allows", Restart, 25, 2, false, false},
	} {
		f := Injected{Fault: Fault{Kind: c.kind}, Return: &c.seconds, Load: c.load}
		goals, check := checkBack([]Injected{f, {Fault: Fault{Kind: c.kind}}}, backGoal)
		if len(goals) != 1 || goals[0].Met != c.met || check.OK != c.ok || goals[0].Name != "back in 4s" {
			t.Errorf("%s: %+v, %+v", c.name, goals, check)
		}
		f.Kind = Stop
		if goals, check := checkBack([]Injected{f}, backGoal); len(goals) > 0 || !check.OK {
			t.Errorf("%s, of a peer that was stopped: %+v, %+v", c.name, goals, check)
		}
	}
	if load := machineLoad(); load < 0 {
		t.Errorf("load %v", load)
	}
	var b strings.Builder
	goalLines(&b, []Goal{{"back in 4s", false, "1 of 2"}, {"x", true, "y"}})
	if want := "goal missed: back in 4s: 1 of 2\ngoal met: x: y\n"; b.String() != want {
		t.Errorf("%q", b.String())
	}
	wan, slow := Config{Preset: "wan"}.backGoal(), Config{Reduction: 3 * time.Second}.backGoal()
	if wan != 80*time.Second || slow != 10*time.Second {
		t.Errorf("with the preset wan %v, with slow reductions %v", wan, slow)
	}
}
