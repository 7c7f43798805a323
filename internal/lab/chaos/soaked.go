package chaos

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"
)

// SoakResult is what a soak ends with: the document that soak --json prints.
type SoakResult struct {
	OK      bool    `json:"ok"`  // whether all checks of both swarms hold
	Met     bool    `json:"met"` // and all goals are met
	Minutes float64 `json:"minutes"`
	Goals   []Goal  `json:"goals"`
	Faulted Result  `json:"faulted"` // with the slots and tokens of the time that counts
	Control Result  `json:"control"`
	Replay  string  `json:"replay"`
	Dir     string  `json:"dir,omitempty"` // where it is not met
}

// Goal is what a soak must reach: a part of what the undisturbed swarm did, or of the faults that
// were drawn.
type Goal struct {
	Name  string  `json:"name"`
	Did   uint64  `json:"did"`
	Of    uint64  `json:"of"`
	Least float64 `json:"least"` // Did / Of
}

// Goals of a soak. A swarm that is long in coming back from a fault is hurt by fewer.
const (
	GoalSlots  = 0.98
	GoalTokens = 0.96
	goalFaults = 0.95
)

func (g Goal) met() bool { return float64(g.Did) >= g.Least*float64(g.Of) }

// within counts the slots that were committed in a time, and their tokens.
func (g *ledger) within(from time.Time, length time.Duration) (slots, tokens uint64) {
	for slot, at := range g.commits {
		if at.After(from) && at.Sub(from) < length {
			slots++
			tokens += g.tokens[slot]
		}
	}
	return slots, tokens
}

// judge compares the swarms. One fault may have come too late, or have missed its leader.
func (r *SoakResult) judge() {
	hurt, calm := r.Faulted, r.Control
	drawn, missed := uint64(len(hurt.Faults)+hurt.Left), uint64(hurt.Left)
	for _, f := range hurt.Faults {
		if f.Missed {
			missed++
		}
	}
	if missed == 1 {
		missed = 0
	}
	r.Goals = []Goal{
		{"slots", hurt.Slots, calm.Slots, GoalSlots},
		{"tokens", hurt.Tokens, calm.Tokens, GoalTokens},
		{"faults", drawn - missed, drawn, goalFaults},
	}
	r.OK = hurt.OK && calm.OK
	r.Met = r.OK && calm.Tokens > 0
	for _, g := range r.Goals {
		r.Met = r.Met && g.met()
	}
}

// print writes the result for people.
func (r SoakResult) print(out io.Writer) {
	r.Faulted.printChecks(out, "hurt: ")
	r.Control.printChecks(out, "undisturbed: ")
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "\n%g MIN\tHURT\tUNDISTURBED\tRATIO\tGOAL\t\n", r.Minutes)
	for _, g := range r.Goals {
		fmt.Fprintf(w, "%s\t%d\t%d\t%.1f%%\t%.0f%%\t%s\n", g.Name, g.Did, g.Of, 100*float64(g.Did)/float64(g.Of),
			100*g.Least, map[bool]string{true: "met", false: "missed"}[g.met()])
	}
	_ = w.Flush() // nobody reads it then
	again(out, r.Replay, r.Dir)
}
