package modes

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/dustin/go-humanize"

	"github.com/p2pdiloco/p2pdiloco/internal/sources"
)

// print writes the result for people.
func (r *Result) print(out io.Writer) {
	var b strings.Builder
	b.WriteString("\n" + r.setting())
	r.printRows(&b)
	r.printRace(&b)
	r.printGoals(&b)
	_, _ = io.WriteString(out, b.String())
}

// setting says what was measured, and how.
func (r *Result) setting() string {
	links := "loopback"
	if r.Links != nil {
		rate := cmp.Or(sources.Rate(r.Links.BitsPerSecond).String(), "no limit")
		links = fmt.Sprintf("a network namespace each, link %s and %.0f ms each way", rate, 1000*r.Links.DelaySeconds)
	}
	text := fmt.Sprintf("%d peers, %d rounds of %d inner steps, %d seeds, %s (%d parameters), warm start of %d "+
		"data-parallel steps (held-out loss %.4f), %s.\n",
		r.Peers, r.Rounds, r.InnerSteps, r.Seeds, r.Model, r.Parameters, r.Warm.Steps, r.Warm.Loss, links)
	text += fmt.Sprintf("An inner step lasts %.0f ms on every peer, so that %d cores are not what is waited for.\n",
		1000*r.StepSeconds, r.Cores)
	if r.Load != nil {
		text += fmt.Sprintf("The cores did NOT keep up: in %q inner steps took %.2f times that. Losses stand; stall "+
			"and wall-clock time are partly the machine's.\n",
			r.Load.Row, r.Load.Ratio)
	}
	return text + "\n"
}

func (r *Result) printRows(out io.Writer) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "MODE\tLOSS\tSPREAD\tOVER DATA-PARALLEL\tOVER SYNC\tSENT\tPEAK\tSTALL\tWALL-CLOCK")
	for _, row := range r.Rows {
		if row.NotBuilt {
			fmt.Fprintf(w, "%s\tnot built\t\t\t\t\t\t\t\n", row.Name)
			continue
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", row.Name, number("%.4f", 1, row.Loss),
			number("%.4f", 1, row.Spread),
			number("%+.2f%%", 100, row.OverReference), number("%+.2f%%", 100, row.OverSync), bytesOf(row.Sent),
			number("%.2f", 1, row.Peak),
			number("%.1f%%", 100, row.Stall), number("%.0f s", 1, row.Seconds))
	}
	_ = w.Flush() // a strings.Builder takes everything
	for _, row := range r.Rows {
		for _, run := range row.Runs {
			if run.Error != "" {
				fmt.Fprintf(out, "%s, seed %d FAILED: %s\n", row.Name, run.Seed, run.Error)
			}
		}
	}
}

func (r *Result) printRace(out io.Writer) {
	for _, race := range r.Races {
		fmt.Fprintf(out, "\n%q takes %.2f of the time of %q, to the lowest loss that both came to, by the median of "+
			"three rounds:\n", race.Row, race.Ratio, slowSyncRow)
		for i, target := range race.Targets {
			fmt.Fprintf(out, "  seed %d: loss %.4f, %.0f s and %.0f s\n", i+1, target, race.Seconds[i], race.Sync[i])
		}
	}
}

func (r *Result) printGoals(out io.Writer) {
	if len(r.Goals) == 0 {
		return
	}
	fmt.Fprintln(out)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "GOAL\tAT MOST\tMEASURED\t")
	for _, g := range r.Goals {
		verb, factor, met := "%.2f", 1.0, "met"
		if g.Percent {
			verb, factor = "%.2f%%", 100
		}
		if !g.Met {
			met = "NOT met"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", g.What, number(verb, factor, &g.Most), number(verb, factor, &g.Measured),
			met)
	}
	_ = w.Flush() // a strings.Builder takes everything
	if r.Seeds < 3 {
		fmt.Fprintln(out, "Of fewer than 3 seeds, differences of some tenths of a percent are chance.")
	}
}

func number(verb string, factor float64, v *float64) string {
	if v == nil {
		return "-"
	}
	return fmt.Sprintf(verb, factor**v)
}

func bytesOf(v *float64) string {
	if v == nil {
		return "-"
	}
	return humanize.Bytes(uint64(max(0, *v)))
}
