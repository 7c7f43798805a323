package bench

import (
	_ "embed"
	"fmt"
	"io"
	"path"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/dustin/go-humanize"
)

// Value is a figure, with its unit.
type Value struct {
	X    float64
	Unit string
}

// Report is what a bench measured, in Go's benchmark format, so that benchstat compares two runs.
// Then come the figures of each name together, beside their goals.
type Report struct {
	head  []string
	lines []line
}

// line is one measurement.
type line struct {
	name   string
	n      uint64
	values []Value
}

// Say notes what holds for all that is measured.
func (r *Report) Say(key, format string, args ...any) {
	r.head = append(r.head, key+": "+fmt.Sprintf(format, args...))
}

// Add adds a measurement of n operations. Measurements of one name are samples of the same.
func (r *Report) Add(name string, n uint64, values ...Value) {
	r.lines = append(r.lines, line{name, n, values})
}

// Samples are all values that a name has in a unit.
func (r *Report) Samples(name, unit string) (x []float64) {
	for _, l := range r.lines {
		for _, v := range l.values {
			if l.name == name && v.Unit == unit {
				x = append(x, v.X)
			}
		}
	}
	return x
}

// Print writes all measurements, then the table.
func (r *Report) Print(out io.Writer) {
	fmt.Fprintln(out, strings.Join(r.head, "\n"))
	cores := runtime.GOMAXPROCS(0)
	for _, l := range r.lines {
		fmt.Fprintf(out, "Benchmark%s-%d\t%d", l.name, cores, l.n)
		for _, v := range l.values {
			fmt.Fprintf(out, "\t%s %s", strconv.FormatFloat(v.X, 'g', 6, 64), v.Unit)
		}
		fmt.Fprintln(out)
	}
	r.table(out)
}

// table writes medians and spreads. benchstat passes over its lines.
func (r *Report) table(out io.Writer) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "\nNAME\tUNIT\tMEDIAN\tLEAST\tP90\tMOST\tOF\tGOAL")
	seen := map[[2]string]bool{}
	for _, l := range r.lines {
		for _, v := range l.values {
			key := [2]string{l.name, v.Unit}
			if seen[key] {
				continue
			}
			seen[key] = true
			x := r.Samples(l.name, v.Unit)
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%d\t%s\n", l.name, v.Unit, text(Median(x), v.Unit),
				text(slices.Min(x), v.Unit), text(Quantile(x, .9), v.Unit), text(slices.Max(x), v.Unit), len(x),
				judge(l.name, v.Unit, Median(x)))
		}
	}
	_ = w.Flush() // out is the terminal, so the error could not be shown
}

// text is a figure for people.
func text(x float64, unit string) string {
	unit = strings.TrimSuffix(unit, "/op")
	switch {
	case unit == "sec" && x < 1, strings.HasSuffix(unit, "-sec") && x < 1:
		return fmt.Sprintf("%.1f ms", 1000*x)
	case strings.HasSuffix(unit, "sec"):
		return fmt.Sprintf("%.2f s", x)
	case x >= 0 && (unit == "B" || unit == "B/s" || strings.HasSuffix(unit, "-B")):
		return humanize.Bytes(uint64(x))
	default:
		return strconv.FormatFloat(x, 'g', 4, 64)
	}
}

// goals are lines of a pattern of names, a unit, <= or >=, and a limit of the median.
//
//go:embed goals.txt
var goals string

// judge says whether a median meets its goal, if there is one.
func judge(name, unit string, median float64) string {
	for g := range strings.Lines(goals) {
		f := strings.Fields(g)
		if len(f) != 4 || f[0] == "#" || f[1] != unit {
			continue
		}
		limit, err := strconv.ParseFloat(f[3], 64)
		if is, _ := path.Match(f[0], name); !is || err != nil {
			continue
		}
		verdict := "missed"
		if f[2] == "<=" && median <= limit || f[2] == ">=" && median >= limit {
			verdict = "met"
		}
		return strings.Join(f[2:], " ") + ": " + verdict
	}
	return ""
}

// Size is a number of bytes as names have it.
func Size(bytes uint64) string {
	return "size=" + strings.Replace(strings.ReplaceAll(humanize.IBytes(bytes), " ", ""), ".0", "", 1)
}
