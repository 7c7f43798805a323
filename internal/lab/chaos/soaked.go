package chaos

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
)

// SoakResult is what a soak ends with: the document that soak --json prints.
type SoakResult struct {
	OK            bool    `json:"ok"`  // whether all checks of both swarms hold
	Met           bool    `json:"met"` // and all goals are met
	Minutes       float64 `json:"minutes"`
	FaultsPerHour int     `json:"faults_per_hour"`

	SlotsRatio  float64 `json:"slots_ratio"`  // of the undisturbed swarm's; goal GoalSlots
	TokensRatio float64 `json:"tokens_ratio"` // the same; goal GoalTokens
	// of the faults that were drawn, those that came about; goal GoalFaults
	FaultsRatio float64 `json:"faults_ratio"`
	Faulted     Result  `json:"faulted"` // with the slots and tokens of the time that counts
	Control     Result  `json:"control"`

	WallSeconds float64 `json:"wall_seconds"`
	Replay      string  `json:"replay"`
	Dir         string  `json:"dir,omitempty"`
}

// Goals of a soak, in parts of what the undisturbed swarm did, and of the faults that were drawn: a
// swarm that is long in coming back from one is hurt by fewer.
const (
	GoalSlots  = 0.98
	GoalTokens = 0.96
	GoalFaults = 0.95
)

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
	if r.Control.Slots > 0 && r.Control.Tokens > 0 {
		r.SlotsRatio = float64(r.Faulted.Slots) / float64(r.Control.Slots)
		r.TokensRatio = float64(r.Faulted.Tokens) / float64(r.Control.Tokens)
	}
	missed := r.Faulted.Left
	for _, f := range r.Faulted.Faults {
		if f.Missed {
			missed++
		}
	}
	r.FaultsRatio = 1
	if missed > 1 {
		r.FaultsRatio -= float64(missed) / float64(len(r.Faulted.Faults)+r.Faulted.Left)
	}
	r.OK = r.Faulted.OK && r.Control.OK
	r.Met = r.OK && r.SlotsRatio >= GoalSlots && r.TokensRatio >= GoalTokens && r.FaultsRatio >= GoalFaults
}

// print writes the result for people.
func (r SoakResult) print(out io.Writer) {
	var b strings.Builder
	recoveryTable(&b, r.Faulted.Recovery)
	lossLines(&b, r.Faulted.Faults)
	b.WriteString("\nThe swarm that was hurt:")
	memoryTable(&b, r.Faulted.Memory)
	b.WriteString("\nThe undisturbed swarm beside it:")
	memoryTable(&b, r.Control.Memory)
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "\n%g MIN\tHURT\tUNDISTURBED\tRATIO\tGOAL\t\n", r.Minutes)
	line := func(name string, hurt, calm uint64, ratio, goal float64) {
		met := "met"
		if ratio < goal {
			met = "missed"
		}
		fmt.Fprintf(w, "%s\t%d\t%d\t%.1f%%\t%.0f%%\t%s\n", name, hurt, calm, 100*ratio, 100*goal, met)
	}
	line("slots", r.Faulted.Slots, r.Control.Slots, r.SlotsRatio, GoalSlots)
	line("tokens", r.Faulted.Tokens, r.Control.Tokens, r.TokensRatio, GoalTokens)
	came := uint64(len(r.Faulted.Faults))
	line("faults", came, came+uint64(r.Faulted.Left), r.FaultsRatio, GoalFaults)
	_ = w.Flush() // a strings.Builder takes everything
	fmt.Fprintf(&b, "%.0f s\n", r.WallSeconds)
	checkLines(&b, "hurt: ", r.Faulted.Checks)
	checkLines(&b, "undisturbed: ", r.Control.Checks)
	if !r.Met {
		fmt.Fprintf(&b, "\nRun the same again:  %s\nLogs, events and data:  %s\n", r.Replay, r.Dir)
	}
	_, _ = io.WriteString(out, b.String())
}

// checkLines writes one line for each check.
func checkLines(b *strings.Builder, who string, checks []Check) {
	for _, c := range checks {
		mark := "ok  "
		if !c.OK {
			mark = "FAIL"
		}
		fmt.Fprintln(b, strings.TrimSpace(fmt.Sprintf("%s  %s%s: %s", mark, who, c.Name, c.Detail)))
	}
}
