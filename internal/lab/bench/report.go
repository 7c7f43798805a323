package bench

import (
	_ "embed"
	"fmt"
	"io"
	"math"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/dustin/go-humanize"
)

// Report prints what a bench measures at once, in Go's benchmark format, so that benchstat compares
// two runs, and has a table of it at the end.
//
// What is compared is measured in turns, because a machine is faster at one time than at another.
type Report struct {
	Out     io.Writer
	samples []sample
	turns   int
}

// sample is one figure.
type sample struct {
	turn       int
	name, unit string
	x          float64
}

// Say prints what holds for all that is measured.
func (r *Report) Say(key, format string, args ...any) {
	fmt.Fprintf(r.Out, key+": "+format+"\n", args...)
}

// Add adds a measurement in a turn, from 0: a figure in each of the units, which have spaces
// between them. Measurements of one name are samples of the same.
func (r *Report) Add(turn int, name, units string, figures ...float64) {
	fmt.Fprintf(r.Out, "Benchmark%s-%d\t1", name, runtime.GOMAXPROCS(0))
	for i, unit := range strings.Fields(units) {
		r.samples = append(r.samples, sample{turn, name, unit, figures[i]})
		fmt.Fprintf(r.Out, "\t%s %s", strconv.FormatFloat(figures[i], 'g', 6, 64), unit)
	}
	fmt.Fprintln(r.Out)
	r.turns = max(r.turns, turn+1)
}

// Ratio adds, of each turn in which both have samples, the median of a name in a unit over that of
// another. Its unit is the unit and what, as in sec-x-mpi.
func (r *Report) Ratio(name, other, unit, what string) {
	for turn := range r.turns {
		if a, b := r.list(turn, name, unit), r.list(turn, other, unit); len(a) > 0 && len(b) > 0 {
			r.Add(turn, name, strings.TrimSuffix(unit, "/op")+"-x-"+what, Median(a)/Median(b))
		}
	}
}

// Samples are all figures that a name has in a unit.
func (r *Report) Samples(name, unit string) []float64 { return r.list(all, name, unit) }

const all = -1 // turns

func (r *Report) list(turn int, name, unit string) (x []float64) {
	for _, s := range r.samples {
		if (turn == all || s.turn == turn) && s.name == name && s.unit == unit {
			x = append(x, s.x)
		}
	}
	return x
}

// Table prints medians and spreads of the figures of each name, beside their goals; nothing if
// nothing was measured. benchstat passes over its lines.
func (r *Report) Table() {
	if len(r.samples) == 0 {
		return
	}
	w := tabwriter.NewWriter(r.Out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "\nUNIT\tMEDIAN\tLEAST\tP90\tOF\tGOAL")
	var names []string
	for _, first := range r.samples {
		if slices.Contains(names, first.name) {
			continue
		}
		names = append(names, first.name)
		fmt.Fprintln(w, first.name)
		var units []string
		for _, s := range r.samples {
			if s.name == first.name && !slices.Contains(units, s.unit) {
				units = append(units, s.unit)
				x := r.Samples(s.name, s.unit)
				text := func(x float64) string { return text(x, s.unit) }
				fmt.Fprintf(w, "  %s\t%s\t%s\t%s\t%d\t%s\n", s.unit, text(Median(x)), text(slices.Min(x)),
					text(Quantile(x, .9)), len(x), Judge(s.name, s.unit, Median(x)))
			}
		}
	}
	_ = w.Flush() // out is the terminal, so the error could not be shown
}

// text is a figure for people.
func text(x float64, unit string) string {
	switch {
	case unit == "sec/op", strings.HasSuffix(unit, "-sec"):
		return humanize.SIWithDigits(x, 2, "s")
	case strings.HasSuffix(unit, "-B"):
		return humanize.SIWithDigits(x, 1, "B")
	case strings.HasSuffix(unit, "-vectors"):
		return fmt.Sprintf("%.1f D", x)
	default:
		return strconv.FormatFloat(x, 'g', 5, 64)
	}
}

// Median is the median of x, of which there is at least one.
func Median(x []float64) float64 {
	s := slices.Sorted(slices.Values(x))
	return (s[(len(s)-1)/2] + s[len(s)/2]) / 2
}

// Quantile is the least value of x that no less than a share q of x is at or below. There is at
// least one.
func Quantile(x []float64, q float64) float64 {
	s := slices.Sorted(slices.Values(x))
	return s[int(math.Ceil(q*float64(len(s))))-1]
}

// goals are lines of a regular expression of names, a unit, and what the median is at most.
//
//go:embed goals.txt
var goals string

// Judge says whether a median meets the first goal that fits; empty: there is none.
func Judge(name, unit string, median float64) string {
	for goal := range strings.Lines(goals) {
		f := strings.Fields(goal)
		if len(f) != 3 || f[1] != unit || !regexp.MustCompile("^(?:"+f[0]+")$").MatchString(name) {
			continue
		}
		if limit, _ := strconv.ParseFloat(f[2], 64); median <= limit {
			return "<= " + f[2] + ": met"
		}
		return "<= " + f[2] + ": missed"
	}
	return ""
}
