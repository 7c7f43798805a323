package reducebench

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/dustin/go-humanize"

	"github.com/p2pdiloco/p2pdiloco/internal/lab/bench"
)

// Print writes the result for people.
func (r Result) Print(out io.Writer) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	row := func(name, format string, args ...any) { fmt.Fprintf(w, "%s\t%s\n", name, fmt.Sprintf(format, args...)) }
	row("case", "%s", r.Case.String())
	row("links", "%s", r.links())
	row("time", "%s (%s to %s), median of %d", bench.Seconds(r.Seconds.Median), bench.Seconds(r.Seconds.Min),
		bench.Seconds(r.Seconds.Max), r.Iters)
	if ideal := r.ideal(); ideal > 0 {
		row("ideal", "%s: the bytes with TCP's headers over the rate; the median is %.3f of it", bench.Seconds(ideal),
			r.Seconds.Median/ideal)
	}
	row("algbw", "%s/s", humanize.Bytes(uint64(r.AlgBW)))
	row("busbw", "%s/s", humanize.Bytes(uint64(r.BusBW)))
	row("CPU", "%.3f s a GB on the wire, %d cores here", r.CPU, r.Cores)
	row("sent", "%s by all peers", humanize.Bytes(r.Sent))
	row("memory", "%s, the peer that took most", humanize.Bytes(r.Peak))
	row("verified", "%s", map[bool]string{
		true:  "close to the reference; the same bits on all peers, in every round",
		false: "NO",
	}[r.Verified])
	row("beside", "hashing %.3f CPU-s a GB; checking and hashing a contribution %s", r.Beside.HashCPU,
		bench.Seconds(r.Beside.Commit))
	if a := r.Against; a != nil {
		row(a.Name, "%s (%s to %s); CPU %.3f s a GB", bench.Seconds(a.Seconds.Median), bench.Seconds(a.Seconds.Min),
			bench.Seconds(a.Seconds.Max), a.CPU)
		row("ratio", "%.2f of its time", a.Ratio)
	}
	_ = w.Flush() // out is the terminal, so the error could not be shown
}

// String is the case in a line.
func (c Case) String() string {
	roots := "with roots"
	if !c.Roots {
		roots = "without roots"
	}
	return fmt.Sprintf("%d peers, %s (frames of %d elements), %s, %s, %s, %s over %s, %s",
		c.Peers, humanize.IBytes(c.vectorBytes()), c.frame(), c.Schedule, c.Aggregator, c.Codec, c.Security,
		c.Transport, roots)
}

func (r Result) links() string {
	if r.Links == nil {
		return "loopback"
	}
	rate := "no limit"
	if r.Links.BitsPerSecond > 0 {
		rate = fmt.Sprintf("%g Mbit/s", float64(r.Links.BitsPerSecond)/1e6)
	}
	if r.Links.Kernel {
		return fmt.Sprintf("a network namespace each, %s of what it sends, by the kernel's token buckets", rate)
	}
	return fmt.Sprintf("a network namespace each, %s, %s one way", rate, bench.Seconds(r.Links.DelaySeconds))
}
