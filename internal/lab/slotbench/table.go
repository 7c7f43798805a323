package slotbench

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/p2pdiloco/p2pdiloco/internal/lab/bench"
	"github.com/p2pdiloco/p2pdiloco/internal/report"
)

// Print writes the result for people.
func (r Result) Print(out io.Writer) {
	links := "loopback"
	if r.Delay > 0 {
		links = fmt.Sprintf("a network namespace each, a round trip of %s", bench.Seconds(r.Delay))
	}
	fmt.Fprintf(out, "%d peers, a model of %s, %d slots, %s, preset %s, %d cores; state roots are equal\n\n",
		r.Peers, bench.Size(r.Bytes), r.Slots, links, r.Preset, r.Cores)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "PHASE\tMEDIAN\tP90")
	for i, p := range r.Phases {
		fmt.Fprintf(w, "%s\t%s\t%s\n", phases[i].what, bench.Seconds(p.Median), bench.Seconds(p.P90))
	}
	fmt.Fprintf(w, "whole\t%s\t%s\n", bench.Seconds(r.Whole.Median), bench.Seconds(r.Whole.P90))
	_ = w.Flush() // out is the terminal, so the error could not be shown
	fmt.Fprintln(out)
	r.printCounts(out)
	if r.Missed > 0 {
		fmt.Fprintf(out, "\n%d of %d slots of a peer are not in it: they went on without that peer.\n", r.Missed,
			r.Missed+len(r.Samples))
	}
}

func (r Result) printCounts(out io.Writer) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "ONE SLOT TAKES\tALL PEERS\tTHE MOST OF A PEER")
	bytes := func(n float64) string { return report.Bytes(uint64(n)) }
	number := func(n float64) string { return fmt.Sprintf("%.1f", n) }
	for i, row := range []struct {
		what string
		text func(float64) string
	}{
		{"CPU time", bench.Seconds},
		{"sent, all-reduce", bytes},
		{"sent, ledger and hello", bytes},
		{"sent, gossip and DHT", bytes},
		{"sent, states and outcomes", bytes},
		{"fsyncs", number},
		{"ledger messages, each to one peer", number},
		{"ledger messages, each to all", number},
		{"signatures made", number},
		{"signatures checked", number},
	} {
		fmt.Fprintf(w, "%s\t%s\t%s\n", row.what, row.text(*r.All.fields()[i]), row.text(*r.Most.fields()[i]))
	}
	_ = w.Flush() // as above
}
