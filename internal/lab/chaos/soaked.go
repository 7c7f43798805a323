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
	Peers         int     `json:"peers"` // of each swarm
	Trust         string  `json:"trust"`
	Seed          uint64  `json:"seed"`
	Kinds         []Kind  `json:"kinds"`

	SlotsRatio  float64 `json:"slots_ratio"`  // of the undisturbed swarm's; goal GoalSlots
	TokensRatio float64 `json:"tokens_ratio"` // the same; goal GoalTokens
	// of the faults that were drawn, those that had time; goal GoalFaults
	FaultsRatio float64 `json:"faults_ratio"`
	Faulted     Soaked  `json:"faulted"`
	Control     Soaked  `json:"control"`

	WallSeconds float64 `json:"wall_seconds"`
	Replay      string  `json:"replay"`
	Dir         string  `json:"dir,omitempty"`
}

// Soaked is what one swarm of a soak did in the time that counts.
type Soaked struct {
	OK     bool    `json:"ok"`
	Slots  int     `json:"slots"`
	Tokens uint64  `json:"tokens"` // that contributions to these slots were trained on
	Checks []Check `json:"checks"`

	Faults   []Injected           `json:"faults"` // that came about
	Left     int                  `json:"left"`   // faults for which there was no time
	Recovery map[string]*Recovery `json:"recovery"`
	Memory   []Memory             `json:"memory"` // at the beginning, the middle and the end
}

// soaked counts the slots and tokens of a soak's swarm.
func (r *runner) soaked(res Result) Soaked {
	s := Soaked{
		OK: res.OK, Checks: res.Checks, Faults: res.Faults, Left: r.soak.left, Recovery: res.Recovery,
		Memory: res.Memory,
	}
	s.Slots, s.Tokens = r.ledger.within(r.soak.from, r.soak.length)
	return s
}

// within counts the slots that were committed in a time, and their tokens.
func (g *ledger) within(from time.Time, length time.Duration) (slots int, tokens uint64) {
	for slot, at := range g.commits {
		if at.After(from) && at.Sub(from) < length {
			slots++
			tokens += g.tokens[slot]
		}
	}
	return slots, tokens
}

// judge compares the swarms.
func (r *SoakResult) judge() {
	r.FaultsRatio = 1
	if r.Control.Slots > 0 && r.Control.Tokens > 0 {
		r.SlotsRatio = float64(r.Faulted.Slots) / float64(r.Control.Slots)
		r.TokensRatio = float64(r.Faulted.Tokens) / float64(r.Control.Tokens)
	}
	r.OK = r.Faulted.OK && r.Control.OK
	if all := len(r.Faulted.Faults) + r.Faulted.Left; all > 0 {
		r.FaultsRatio = float64(all-r.cameNot()) / float64(all)
	}
	r.Met = r.OK && r.SlotsRatio >= GoalSlots && r.TokensRatio >= GoalTokens && r.hurtEnough()
}

// hurtEnough says whether so many of the faults that were drawn came about as should. One may have
// come too late.
func (r SoakResult) hurtEnough() bool { return r.cameNot() <= 1 || r.FaultsRatio >= GoalFaults }

// cameNot counts the faults that were drawn and did not come about: there was no time for them, or
// no leader could be caught.
func (r SoakResult) cameNot() (n int) {
	n = r.Faulted.Left
	for _, f := range r.Faulted.Faults {
		if f.Missed {
			n++
		}
	}
	return n
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
	fmt.Fprintf(w, "slots\t%d\t%d\t%.1f%%\t%.0f%%\t%s\n", r.Faulted.Slots, r.Control.Slots, 100*r.SlotsRatio,
		100*GoalSlots, met(r.SlotsRatio, GoalSlots))
	fmt.Fprintf(w, "tokens\t%d\t%d\t%.1f%%\t%.0f%%\t%s\n", r.Faulted.Tokens, r.Control.Tokens, 100*r.TokensRatio,
		100*GoalTokens, met(r.TokensRatio, GoalTokens))
	_ = w.Flush() // a strings.Builder takes everything
	fmt.Fprintf(&b, "%d faults", len(r.Faulted.Faults))
	if r.Faulted.Left > 0 {
		fmt.Fprintf(&b, ", %d more had no time", r.Faulted.Left)
	}
	if !r.hurtEnough() {
		fmt.Fprintf(&b, " (%.0f%% came about, goal %.0f%%: missed)", 100*r.FaultsRatio, 100*GoalFaults)
	}
	fmt.Fprintf(&b, "; %.0f s\n", r.WallSeconds)
	checkLines(&b, "hurt: ", r.Faulted.Checks)
	checkLines(&b, "undisturbed: ", r.Control.Checks)
	if !r.Met {
		fmt.Fprintf(&b, "\nRun the same again:  %s\nLogs, events and data:  %s\n", r.Replay, r.Dir)
	}
	_, _ = io.WriteString(out, b.String())
}

func met(ratio, goal float64) string {
	if ratio >= goal {
		return "met"
	}
	return "missed"
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
