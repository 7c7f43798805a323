package slotbench

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/p2pdiloco/p2pdiloco/internal/lab/bench"
)

// Print writes the results for people, side by side.
func (all Results) Print(out io.Writer) {
	r := all.Results[0]
	fmt.Fprintf(out, "%d peers, a model of %s, %d slots, %s, preset %s, %d cores; state roots are equal\n\n",
		r.Peers, humanize.IBytes(r.Bytes), r.Slots, r.links(), r.Preset, r.Cores)
	all.printPhases(out)
	all.printCounts(out)
	for _, r := range all.Results {
		if r.Missed > 0 {
			fmt.Fprintf(out, "\nTrust %s: %d of %d slots of a peer are not in it: they went on without that peer.\n",
				r.Trust, r.Missed, r.Missed+len(r.Samples))
		}
	}
}

// links says what lies between the peers.
func (r Result) links() string {
	if r.RTT == 0 {
		return "loopback"
	}
	return fmt.Sprintf("a network namespace each, between which p2plab holds each packet back for %v one way "+
		"(a round trip of %s)", time.Duration(r.RTT/2*float64(time.Second)), bench.Seconds(r.RTT))
}

// head is a line of headings: the same ones for each trust.
func (all Results) head(first string, each ...string) string {
	cells := []string{first}
	for _, r := range all.Results {
		for _, c := range each {
			if len(all.Results) > 1 {
				c = strings.ToUpper(r.Trust) + ": " + c
			}
			cells = append(cells, c)
		}
	}
	return strings.Join(cells, "\t")
}

// line is a line with the cells of each trust.
func (all Results) line(first string, of func(Result) []string) string {
	cells := []string{first}
	for _, r := range all.Results {
		cells = append(cells, of(r)...)
	}
	return strings.Join(cells, "\t")
}

func (all Results) printPhases(out io.Writer) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, all.head("PHASE", "MEDIAN", "P90"))
	row := func(name string, of func(Result) Phase) {
		fmt.Fprintln(w, all.line(name, func(r Result) []string {
			return []string{bench.Seconds(of(r).Median), bench.Seconds(of(r).P90)}
		}))
	}
	for i := range phases {
		row(phases[i].what, func(r Result) Phase { return r.Phases[i] })
	}
	row("whole", func(r Result) Phase { return r.Whole })
	if all.Results[0].RTT > 0 {
		fmt.Fprintln(w, all.line("whole, in round trips", func(r Result) []string {
			return []string{fmt.Sprintf("%.1f", r.Whole.Median/r.RTT), fmt.Sprintf("%.1f", r.Whole.P90/r.RTT)}
		}))
	}
	_ = w.Flush() // out is the terminal, so the error could not be shown
	fmt.Fprintln(out)
}

func (all Results) printCounts(out io.Writer) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, all.head("ONE SLOT TAKES", "ALL PEERS", "THE MOST OF A PEER"))
	bytes := func(n float64) string { return humanize.Bytes(uint64(n)) }
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
		fmt.Fprintln(w, all.line(row.what, func(r Result) []string {
			return []string{row.text(*r.All.fields()[i]), row.text(*r.Most.fields()[i])}
		}))
	}
	if all.Results[0].Memory > 0 {
		fmt.Fprintln(w, all.line("memory, resident", func(r Result) []string {
			vectors := float64(r.Memory) / float64(r.Bytes)
			return []string{"", fmt.Sprintf("%s, %.1f vectors", humanize.Bytes(r.Memory), vectors)}
		}))
	}
	_ = w.Flush() // as above
}
