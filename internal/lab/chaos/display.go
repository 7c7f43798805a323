package chaos

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/dustin/go-humanize"
)

const refresh = 250 * time.Millisecond

// show redraws the table if there is a terminal.
func (r *runner) show() {
	if !r.cfg.Terminal || time.Since(r.drawnAt) < refresh {
		return
	}
	r.drawnAt = time.Now()
	r.screen.Table(r.draw())
}

func (r *runner) draw() string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "PEER\tPID\tSLOT\tSTATE ROOT\tSENT\tPROCESSES\tSTATE")
	for _, p := range r.nodes {
		pid := "-"
		if !p.gone {
			pid = fmt.Sprint(p.PID())
		}
		fmt.Fprintf(w, "%d %s\t%s\t%d\t%s\t%s\t%d\t%s\n", p.n, p.ID[max(0, len(p.ID)-6):], pid, p.slot,
			short(p.status.StateRoot.String()), humanize.Bytes(p.sent+p.status.Sent), p.lives, p.state())
	}
	_ = w.Flush() // a strings.Builder takes everything
	fmt.Fprintf(&b, "slot %d of %d, height %d, faults %d over, %d under way, %d to come, %.0f s\n",
		r.ledger.slot, r.cfg.Slots, r.ledger.height, len(r.done), len(r.active), len(r.pending),
		r.screen.Elapsed().Seconds())
	return b.String()
}

func (p *node) state() string {
	switch {
	case p.hurt.doing("back"):
		return "on its way back"
	case p.hurt != nil:
		return p.hurt.String()
	case p.gone:
		return "ended"
	}
	return string(p.status.Phase)
}

// summarize writes the result for people.
func summarize(out io.Writer, r Result) {
	var b strings.Builder
	recoveryTable(&b, r.Recovery)
	lossLines(&b, r.Faults)
	phasesHit(&b, r)
	fmt.Fprintf(&b, "\n%.0f slots an hour", r.SlotsPerHour)
	if r.BaselinePerHour > 0 {
		fmt.Fprintf(&b, ", %.0f undisturbed (%.0f%%)", r.BaselinePerHour, 100*r.SlotsPerHour/r.BaselinePerHour)
	}
	fmt.Fprintf(&b, "; %.1f s held back by the schedule not counted; %s sent in all; %.0f s\n", r.HeldSeconds,
		humanize.Bytes(r.BytesSent), r.WallSeconds)
	checkLines(&b, "", r.Checks)
	if !r.OK {
		fmt.Fprintf(&b, "\nRun the same again:  %s\nLogs, events and data:  %s\n", r.Replay, r.Dir)
	}
	_, _ = io.WriteString(out, b.String())
}

func recoveryTable(b *strings.Builder, all map[string]*Recovery) {
	if len(all) == 0 {
		return
	}
	w := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "\nFAULT\tTIMES\tNEXT SLOT AFTER, MEDIAN\tMAX\tBACK AFTER, MEDIAN\tMAX")
	for _, name := range slices.Sorted(maps.Keys(all)) {
		rec := all[name]
		median, most := spread(rec.Seconds)
		back, longest := spread(rec.Return)
		fmt.Fprintf(w, "%s\t%d\t%.2f s\t%.2f s\t%.2f s\t%.2f s\n", name, max(len(rec.Seconds), len(rec.Return)),
			median, most, back, longest)
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
	if len(hit) > 0 {
		fmt.Fprintf(b, "\nLeaders died in phase: %s\n", strings.TrimPrefix(fmt.Sprint(hit), "map"))
	}
}
