package document

import (
	"bytes"
	"encoding/xml"
	"math"
	"slices"
	"strconv"
	"strings"
	"text/template"
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
	left, right, top, bottom = 80, 700, 40, 385 // pixels of a picture, where the axes end
	most                     = 1e300            // of a coordinate
	mostDots                 = 100              // of a series whose points are marked
)

// Which can be told apart with any colour vision (Okabe and Ito).
var colours = []string{"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000"}

// curve is a series in pixels.
type curve struct {
	Name, Colour string
	Legend       int // where its name stands, from the top
	Dots         bool
	Runs         [][][2]float64 // of points
}

// Draw returns the picture.
func (p Plot) Draw() []byte {
	var xs, ys []float64
	for _, s := range p.Series {
		for _, at := range slices.Concat(s.runs()...) {
			xs, ys = append(xs, at[0]), append(ys, at[1])
		}
	}
	across, up := newAxis(xs, left, right), newAxis(ys, bottom, top)
	data := struct {
		Plot
		Across, Up []mark
		Curves     []curve
	}{p, across.labels(), up.labels(), nil}
	for i, s := range p.Series {
		c := curve{s.Name, colours[i%len(colours)], top + 20*(i+1), len(s.X) <= mostDots, s.runs()}
		for _, run := range c.Runs {
			for j, at := range run {
				run[j] = [2]float64{across.place(at[0]), up.place(at[1])}
			}
		}
		data.Curves = append(data.Curves, c)
	}
	var b bytes.Buffer
	if err := drawing.Execute(&b, data); err != nil {
		panic(err) // it takes any data, and a buffer everything
	}
	return b.Bytes()
}

// drawing is the picture. Names in the legend are readable across lines.
var drawing = template.Must(template.New("plot").Funcs(template.FuncMap{"text": escape, "pixels": pixels}).Parse(
	`<svg xmlns="http://www.w3.org/2000/svg" width="720" height="440" viewBox="0 0 720 440"
 font-family="sans-serif" font-size="13"><rect width="100%" height="100%" fill="#fff"/>
<text x="390" y="24" text-anchor="middle">{{text .Title}}</text>
<text x="390" y="428" text-anchor="middle">{{text .X}}</text>
{{range .Across}}<line x1="{{.At}}" y1="40" x2="{{.At}}" y2="385" stroke="#ddd"/>
<text x="{{.At}}" y="403" text-anchor="middle">{{.Text}}</text>
{{end}}{{range .Up}}<line x1="80" y1="{{.At}}" x2="700" y2="{{.At}}" stroke="#ddd"/>
<text x="74" y="{{.At}}" dy="4" text-anchor="end">{{.Text}}</text>
{{end}}<text x="18" y="212" text-anchor="middle" transform="rotate(-90 18 212)">{{text .Y}}</text>
<path d="M80 40V385H700" fill="none" stroke="#000"/>
{{range .Curves}}<g fill="none" stroke="{{.Colour}}" stroke-width="2">
{{$curve := .}}{{range .Runs}}{{if $curve.Dots}}{{range .}}
<circle cx="{{index . 0 | pixels}}" cy="{{index . 1 | pixels}}" r="2" fill="{{$curve.Colour}}"/>{{end}}
{{end}}<polyline points="{{range .}}{{index . 0 | pixels}},{{index . 1 | pixels}} {{end}}"/>
{{end}}<path d="M666 {{.Legend}}m0 -4h24"/></g>
<text x="660" y="{{.Legend}}" text-anchor="end" stroke="#fff" stroke-width="4" paint-order="stroke">{{text .Name
}}</text>
{{end}}</svg>
`))

// escape makes XML of a text.
func escape(s string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(s)) // a builder takes everything
	return b.String()
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

// mark is one of an axis.
type mark struct {
	At, Text string
}

func (a axis) labels() (labels []mark) {
	for _, v := range a.marks() {
		labels = append(labels, mark{pixels(a.place(v)), label(v)})
	}
	return labels
}

func pixels(at float64) string { return strconv.FormatFloat(at, 'f', 1, 64) }

func label(v float64) string { return strconv.FormatFloat(v, 'g', 10, 64) }
