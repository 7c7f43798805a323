package bench

import (
	_ "embed"
	"fmt"
	"io"
	"regexp"
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
//
// What is compared is measured in turns, because a machine is faster at one time than at another.
type Report struct {
	head  []string
	lines []line
	turns int
}

// line is one measurement.
type line struct {
	turn   int
	name   string
	n      uint64
	values []Value
}

// Say notes what holds for all that is measured.
func (r *Report) Say(key, format string, args ...any) {
	r.head = append(r.head, key+": "+fmt.Sprintf(format, args...))
}

// Add adds a measurement of n operations in a turn, from 0. Measurements of one name are samples of
// the same.
func (r *Report) Add(turn int, name string, n uint64, values ...Value) {
	r.lines = append(r.lines, line{turn, name, n, values})
	r.turns = max(r.turns, turn+1)
}

// Ratio adds, of each turn in which both have samples, the median of a name in a unit over that of
// another. Its unit is the unit and what, as in sec-x-mpi.
func (r *Report) Ratio(name, other, unit, what string) {
	for turn := range r.turns {
		if a, b := r.samples(turn, name, unit), r.samples(turn, other, unit); len(a) > 0 && len(b) > 0 {
			r.Add(turn, name, 1, Value{Median(a) / Median(b), strings.TrimSuffix(unit, "/op") + "-x-" + what})
		}
	}
}

// Samples are all values that a name has in a unit.
func (r *Report) Samples(name, unit string) (x []float64) {
	for turn := range r.turns {
		x = append(x, r.samples(turn, name, unit)...)
	}
	return x
}

func (r *Report) samples(turn int, name, unit string) (x []float64) {
	for _, l := range r.lines {
		for _, v := range l.values {
			if l.turn == turn && l.name == name && v.Unit == unit {
				x = append(x, v.X)
			}
		}
	}
	return x
}

// Print writes all measurements, then the table; nothing if there is none.
func (r *Report) Print(out io.Writer) {
	if len(r.lines) == 0 {
		return
	}
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
	fmt.Fprintln(w, "\nUNIT\tMEDIAN\tLEAST\tP90\tMOST\tOF\tGOAL")
	seen := map[string]bool{}
	for _, first := range r.lines {
		if seen[first.name] {
			continue
		}
		fmt.Fprintln(w, first.name)
		for _, l := range r.lines {
			for _, v := range l.values {
				if key := l.name + " " + v.Unit; l.name == first.name && !seen[key] {
					seen[key] = true
					r.row(w, l.name, v.Unit)
				}
			}
		}
		seen[first.name] = true
	}
	_ = w.Flush() // out is the terminal, so the error could not be shown
}

func (r *Report) row(w io.Writer, name, unit string) {
	x := r.Samples(name, unit)
	fmt.Fprintf(w, "  %s\t%s\t%s\t%s\t%s\t%d\t%s\n", unit, text(Median(x), unit), text(slices.Min(x), unit),
		text(Quantile(x, .9), unit), text(slices.Max(x), unit), len(x), Judge(name, unit, Median(x)))
}

// text is a figure for people.
func text(x float64, unit string) string {
	switch {
	case unit == "sec/op", strings.HasSuffix(unit, "-sec"):
		return humanize.SIWithDigits(x, 1, "s")
	case strings.HasSuffix(unit, "-B"), unit == "bus-B/s":
		return humanize.SIWithDigits(x, 1, "B")
	default:
		return strconv.FormatFloat(x, 'g', 5, 64)
	}
}

// goals are lines of a regular expression of names, a unit, and what the median is at most.
//
//go:embed goals.txt
var goals string

// Judge says whether a median meets its goal; empty: there is none.
func Judge(name, unit string, median float64) string {
	for g := range strings.Lines(goals) {
		f := strings.Fields(g)
		if len(f) != 3 || f[1] != unit || !regexp.MustCompile("^(?:"+f[0]+")$").MatchString(name) {
			continue
		}
		verdict := "missed"
		if limit, err := strconv.ParseFloat(f[2], 64); err == nil && median <= limit {
			verdict = "met"
		}
		return "<= " + f[2] + ": " + verdict
	}
	return ""
}

// SizeText is a number of bytes as names and flags have it, like 64MiB.
func SizeText(bytes uint64) string {
	return strings.Replace(strings.ReplaceAll(humanize.IBytes(bytes), " ", ""), ".0", "", 1)
}
