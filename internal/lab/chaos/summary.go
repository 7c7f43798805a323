package chaos

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/p2pdiloco/p2pdiloco/internal/report"
)

// summarize writes the result for people.
func summarize(out io.Writer, r Result) {
	var b strings.Builder
	recoveryTable(&b, r)
	phasesHit(&b, r)
	memoryTable(&b, r)
	fmt.Fprintf(&b, "\n%.0f slots an hour", r.SlotsPerHour)
	if r.BaselinePerHour > 0 {
		fmt.Fprintf(&b, ", %.0f undisturbed (%.0f%%)", r.BaselinePerHour, 100*r.SlotsPerHour/r.BaselinePerHour)
	}
	fmt.Fprintf(&b, "; %.1f s held back by the schedule not counted; %s sent in all; %.0f s\n", r.HeldSeconds,
		report.Bytes(r.BytesSent), r.WallSeconds)
	for _, c := range r.Checks {
		mark := "ok  "
		if !c.OK {
			mark = "FAIL"
		}
		fmt.Fprintln(&b, strings.TrimSpace(fmt.Sprintf("%s  %s: %s", mark, c.Name, c.Detail)))
	}
	if !r.OK {
		fmt.Fprintf(&b, "\nRun the same again:  %s\nLogs, events and data:  %s\n", r.Replay, r.Dir)
	}
	_, _ = io.WriteString(out, b.String())
}

func recoveryTable(b *strings.Builder, r Result) {
	if len(r.Recovery) == 0 {
		return
	}
	w := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "\nFAULT\tTIMES\tNEXT SLOT AFTER, MEDIAN\tMAX\tBACK AFTER, MEDIAN\tMAX")
	for _, name := range slices.Sorted(maps.Keys(r.Recovery)) {
		rec := r.Recovery[name]
		fmt.Fprintf(w, "%s\t%d\t%.2f s\t%.2f s\t%.2f s\t%.2f s\n", name, rec.Count, rec.Median, rec.Max,
			rec.ReturnMedian, rec.ReturnMax)
	}
	_ = w.Flush() // a strings.Builder takes everything
}

// phasesHit says in which phases leaders died.
func phasesHit(b *strings.Builder, r Result) {
	hit := map[Phase]int{}
	for _, f := range r.Faults {
		if f.PhaseHit != "" {
			hit[f.PhaseHit]++
		}
	}
	var parts []string
	for _, p := range phases {
		if hit[p] > 0 {
			parts = append(parts, fmt.Sprintf("%s %d", p, hit[p]))
		}
	}
	if len(parts) > 0 {
		fmt.Fprintf(b, "\nLeaders died in phase: %s\n", strings.Join(parts, ", "))
	}
}

func memoryTable(b *strings.Builder, r Result) {
	if len(r.Memory) == 0 {
		return
	}
	w := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "\nMEMORY AT SLOT\tPROCESSES\tRSS, MEDIAN\tMAX\tHEAP, MEDIAN\tMAX\tGOROUTINES, MEDIAN\tMAX")
	for _, m := range r.Memory {
		var rss, heap, routines []float64
		for _, p := range m.Peers {
			rss, heap, routines = append(rss, float64(p.RSS)), append(heap, float64(p.Heap)),
				append(routines, float64(p.Goroutines))
		}
		fmt.Fprintf(w, "%d\t%d", m.Slot, len(m.Peers))
		for _, xs := range [][]float64{rss, heap} {
			median, most := spread(xs)
			fmt.Fprintf(w, "\t%s\t%s", report.Bytes(uint64(median)), report.Bytes(uint64(most)))
		}
		median, most := spread(routines)
		fmt.Fprintf(w, "\t%.0f\t%.0f\n", median, most)
	}
	_ = w.Flush() // a strings.Builder takes everything
}
