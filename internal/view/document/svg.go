package document

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"math"
	"slices"
	"strconv"
)

// Plot is a picture of curves as SVG. Any floats and any text give well-formed XML. Its zero value
// is an empty one.
type Plot struct {
	Title, X, Y string // X and Y say what the axes show, in which unit
	Series      []Series
}

// Series is a line through points, whose coordinates are X[i] and Y[i]. A point without one of
// them, or with one that is NaN, infinite or beyond 1e300, is left out, and the line has a gap.
type Series struct {
	Name string
	X, Y []float64
}

const (
	width, height            = 720, 440 // pixels
	left, right, top, bottom = 80, 700, 40, 385
	most                     = 1e300 // of a coordinate
	mostDots                 = 100   // of a series whose points are marked
)

// Which can be told apart with any colour vision (Okabe and Ito).
var colours = []string{"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000"}

// Draw returns the picture.
func (p Plot) Draw() []byte {
	var xs, ys []float64
	for _, s := range p.Series {
		for _, at := range slices.Concat(s.runs()...) {
			xs, ys = append(xs, at[0]), append(ys, at[1])
		}
	}
	d := drawing{x: newAxis(xs, left, right), y: newAxis(ys, bottom, top)}
	d.add(`<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %[1]d %[2]d"`, width, height)
	d.add(` font-family="sans-serif" font-size="13"><rect width="100%%" height="100%%" fill="#fff"/>` + "\n")
	d.text((left+right)/2, 24, "middle", p.Title)
	d.text((left+right)/2, height-12, "middle", p.X)
	for _, v := range d.x.marks() {
		d.line(d.x.place(v), top, d.x.place(v), bottom)
		d.text(d.x.place(v), bottom+18, "middle", label(v))
	}
	for _, v := range d.y.marks() {
		d.line(left, d.y.place(v), right, d.y.place(v))
		d.text(left-6, d.y.place(v)+4, "end", label(v))
	}
	d.add(`<g transform="rotate(-90 18 %d)">`, (top+bottom)/2)
	d.text(18, (top+bottom)/2, "middle", p.Y)
	d.add(`</g><path d="M%d %dV%dH%d" fill="none" stroke="#000"/>`+"\n", left, top, bottom, right)
	for i, s := range p.Series {
		d.series(s, colours[i%len(colours)], float64(top+20*(i+1)))
	}
	d.add("</svg>\n")
	return d.Bytes()
}

// runs are the points between gaps.
func (s Series) runs() [][][2]float64 {
	runs := [][][2]float64{nil}
	for i := range min(len(s.X), len(s.Y)) {
		if math.Abs(s.X[i]) <= most && math.Abs(s.Y[i]) <= most { // which NaN is not
			runs[len(runs)-1] = append(runs[len(runs)-1], [2]float64{s.X[i], s.Y[i]})
		} else {
			runs = append(runs, nil)
		}
	}
	return runs
}

type drawing struct {
	bytes.Buffer
	x, y axis
}

func (d *drawing) add(format string, args ...any) { fmt.Fprintf(d, format, args...) }

func (d *drawing) text(x, y float64, anchor, s string) {
	d.add(`<text x="%.1f" y="%.1f" text-anchor="%s">`, x, y, anchor)
	_ = xml.EscapeText(d, []byte(s)) // a buffer takes everything
	d.add("</text>\n")
}

func (d *drawing) line(x1, y1, x2, y2 float64) {
	d.add(`<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" stroke="#ddd"/>`+"\n", x1, y1, x2, y2)
}

// series draws a line, and at y its name in the legend, which is readable across lines.
func (d *drawing) series(s Series, colour string, y float64) {
	d.add(`<g fill="none" stroke="%s" stroke-width="2">`+"\n", colour)
	for _, run := range s.runs() {
		points := &bytes.Buffer{}
		for _, at := range run {
			x, y := d.x.place(at[0]), d.y.place(at[1])
			fmt.Fprintf(points, "%.1f,%.1f ", x, y)
			if len(s.X) <= mostDots {
				d.add(`<circle cx="%.1f" cy="%.1f" r="2" fill="%s"/>`+"\n", x, y, colour)
			}
		}
		d.add(`<polyline points="%s"/>`+"\n", points)
	}
	d.add(`<path d="M%d %.1fh24"/></g><g stroke="#fff" stroke-width="4" paint-order="stroke">`, right-34, y-4)
	d.text(right-40, y, "end", s.Name)
	d.add("</g>\n")
}

// axis maps values from low to high to pixels. Its marks are the multiples of step in between.
type axis struct{ low, high, step, from, to float64 }

func newAxis(values []float64, from, to float64) axis {
	a := axis{low: 0, high: 1, from: from, to: to}
	if len(values) > 0 {
		a.low, a.high = slices.Min(values), slices.Max(values)
	}
	if size := max(-a.low, a.high); a.high-a.low <= 1e-9*size+1e-290 { // one value
		a.low, a.high = a.low-max(size/10, .5), a.high+max(size/10, .5)
	}
	about := (a.high - a.low) / 6
	unit := math.Pow(10, math.Floor(math.Log10(about)))
	for _, times := range []float64{1, 2, 5, 10} {
		if a.step < about {
			a.step = times * unit
		}
	}
	if !slices.ContainsFunc(values, func(v float64) bool { return v != math.Trunc(v) }) {
		a.step = max(a.step, 1) // there are no half rounds
	}
	return a
}

func (a axis) place(v float64) float64 { return a.from + (v-a.low)/(a.high-a.low)*(a.to-a.from) }

func (a axis) marks() (marks []float64) {
	for n := math.Ceil(a.low/a.step - 1e-6); n <= a.high/a.step+1e-6; n++ { // in spite of rounding
		marks = append(marks, n*a.step+0) // 0, not -0
	}
	return marks
}

func label(v float64) string { return strconv.FormatFloat(v, 'g', 10, 64) }
