package kernelbench

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/p2pdiloco/p2pdiloco/internal/lab/bench"
)

// Result is the document that bench kernels --json prints. Rates are medians in GB/s, 10^9 bytes
// read or written a second, on one core.
type Result struct {
	Processor    string `json:"processor"`
	Architecture string `json:"architecture"`
	// whether there is a fast path here; otherwise both columns are plain loops
	Fast     bool  `json:"fast"`
	Elements int   `json:"elements"`
	Rounds   int   `json:"rounds"`
	Kernels  []Row `json:"kernels"`
}

// Row is one kernel.
type Row struct {
	Name  string   `json:"name"`
	Bytes int      `json:"bytes"` // read and written by a call
	Rate  float64  `json:"gb_per_s"`
	Least float64  `json:"min_gb_per_s"`
	Most  float64  `json:"max_gb_per_s"`
	Copy  float64  `json:"memcpy_gb_per_s"` // a copy that reads and writes as many bytes
	Share float64  `json:"of_memcpy"`       // Rate to Copy
	Plain *float64 `json:"plain_gb_per_s"`  // of the plain loop; null if there is none
	Ratio *float64 `json:"fast_to_plain"`   // Rate to Plain
}

func (s *sampler) row() Row {
	r := Row{
		Name: s.name, Bytes: s.bytes, Rate: bench.Median(s.fast), Least: slices.Min(s.fast), Most: slices.Max(s.fast),
		Copy: bench.Median(s.copies),
	}
	r.Share = r.Rate / r.Copy
	if s.kase.plain {
		plain := bench.Median(s.plain)
		ratio := r.Rate / plain
		r.Plain, r.Ratio = &plain, &ratio
	}
	return r
}

// Print writes the result for people.
func (r Result) Print(out io.Writer) {
	instructions := "AVX2"
	if !r.Fast {
		instructions = "none: all is plain Go"
	}
	fmt.Fprintf(out, "%s, %s, one core; vector instructions: %s. GB/s of all reads and writes, medians of %d.\n\n",
		r.Processor, r.Architecture, instructions, r.Rounds)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "KERNEL\tGB/S\tPLAIN GO\tRATIO\tMEMCPY\tOF MEMCPY\t")
	for _, k := range r.Kernels {
		plain, ratio := "-", "-"
		if k.Plain != nil {
			plain, ratio = fmt.Sprintf("%.1f", *k.Plain), fmt.Sprintf("%.1fx", *k.Ratio)
		}
		fmt.Fprintf(w, "%s\t%.1f\t%s\t%s\t%.1f\t%.0f%%\t\n", k.Name, k.Rate, plain, ratio, k.Copy, 100*k.Share)
	}
	_ = w.Flush() // a terminal that is gone
}

// processor is the name of the processor, if the system knows it.
func processor() string {
	f, err := os.Open("/proc/cpuinfo")
	if err != nil {
		return "unknown processor"
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		if key, value, ok := strings.Cut(lines.Text(), ":"); ok && strings.TrimSpace(key) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return "unknown processor"
}
