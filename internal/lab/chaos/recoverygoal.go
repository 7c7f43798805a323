package chaos

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

// CheckBack is the name of the check of how long peers need to take part again.
const CheckBack = "back in time"

// backGoal is how long a bootstrap node, or a peer with its data, should need from its start until
// it takes part again, with the preset lan. On a machine with other work it takes longer: a run
// fails where one needs backMost times as long, for each process that a processor has to run.
const (
	backGoal = 4 * time.Second
	backMost = 3
)

// backGoal is the goal with the peers' timers. A peer that was dropped is listed again with a
// record, which may wait for a slot under reduction.
func (c Config) backGoal() time.Duration { return c.stretch(backGoal) + 2*c.Reduction }

// Goal is what a run should reach. One that is missed is no fault of the run.
type Goal struct {
	Name   string `json:"name"`
	Met    bool   `json:"met"`
	Detail string `json:"detail"`
}

// starts says whether a fault ends with the start of a process whose data are there.
func (k Kind) starts() bool { return slices.Contains([]Kind{Kill, Restart, Bootstrap}, k) }

// checkBack holds the returns of what was started again against the goal, and against what the
// machine's load allows. Where nothing was started again there is no goal.
func checkBack(faults []Injected, goal time.Duration) (goals []Goal, _ Check) {
	var late []string
	met, all, longest := 0, 0, time.Duration(0)
	for _, f := range faults {
		if f.Missed || f.Return == nil || !f.Kind.starts() {
			continue
		}
		all++
		took := time.Duration(*f.Return * float64(time.Second))
		longest = max(longest, took)
		if took <= goal {
			met++
		}
		if most := time.Duration(backMost * max(1, f.Load) * float64(goal)); took > most {
			late = append(late, fmt.Sprintf("%s at slot %d: %.1f s, with %.1f processes for each processor", f.Kind,
				f.BegunSlot, took.Seconds(), f.Load))
		}
	}
	if all > 0 {
		goals = []Goal{{
			fmt.Sprintf("back in %v", goal), met == all,
			fmt.Sprintf("%d of %d starts, the longest took %.1f s", met, all, longest.Seconds()),
		}}
	}
	return goals, verdict(CheckBack, late, fmt.Sprintf("%d starts", all))
}

// machineLoad is how many processes there were in the last minute, for each processor, that ran or
// waited to; 0 where the system does not say.
func machineLoad() float64 {
	b, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return 0
	}
	first, _, _ := strings.Cut(string(b), " ")
	load, err := strconv.ParseFloat(first, 64)
	if err != nil {
		return 0
	}
	return load / float64(runtime.NumCPU())
}
