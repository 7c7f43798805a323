package document

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// elements are the picture's tags, with what they say. It fails where the XML is not well-formed.
func elements(t interface{ Fatalf(string, ...any) }, picture []byte) (tags map[string]int, texts []string) {
	tags = map[string]int{}
	for d := xml.NewDecoder(bytes.NewReader(picture)); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return tags, texts
		}
		if err != nil {
			t.Fatalf("%v in\n%s", err, picture)
		}
		switch token := token.(type) {
		case xml.StartElement:
			tags[token.Name.Local]++
			for _, a := range token.Attr {
				if strings.Contains(a.Value, "NaN") || strings.Contains(a.Value, "Inf") {
					t.Fatalf("%s has %s=%q", token.Name.Local, a.Name.Local, a.Value)
				}
			}
		case xml.CharData:
			if text := strings.TrimSpace(string(token)); text != "" {
				texts = append(texts, text)
			}
		}
	}
}

func TestPictureOfCurves(t *testing.T) {
	p := Plot{Title: "Held-out <loss>", X: "round", Y: "nats & bits", Series: []Series{
		{"swarm", []float64{0, 1, 2}, []float64{3, 2.5, 2.25}},
		{"\"alone\"\x00", []float64{0, 1, 2, 3}, []float64{3, 2.75, math.NaN(), 2.5}},
	}}
	tags, texts := elements(t, p.Draw())
	if tags["polyline"] != 3 || tags["circle"] != 6 { // a gap in the second
		t.Errorf("%v", tags)
	}
	for _, want := range []string{
		"Held-out <loss>", "round", "nats & bits", "swarm", "\"alone\"\uFFFD", "0", "1", "2", "3", "2.4", "2.6",
	} {
		if !slices.Contains(texts, want) {
			t.Errorf("%q is missing in %q", want, texts)
		}
	}
	if slices.Contains(texts, "0.5") {
		t.Error("a mark between whole rounds")
	}
}

// Lines go from left to right and from the bottom up, and fill the area.
func TestPlaces(t *testing.T) {
	picture := string(Plot{Series: []Series{{"", []float64{1, 3}, []float64{-5, 7}}}}.Draw())
	if !strings.Contains(picture, `points="80.0,385.0 700.0,40.0 "`) {
		t.Error(picture)
	}
}

func TestManyPointsAreALineAlone(t *testing.T) {
	x := make([]float64, mostDots+1)
	if tags, _ := elements(t, Plot{Series: []Series{{"", x, x}}}.Draw()); tags["circle"] != 0 || tags["polyline"] != 1 {
		t.Errorf("%v", tags)
	}
}

// Whatever the numbers and the text: XML without NaN in it, and some marks on both axes.
func TestAnyPlot(t *testing.T) {
	value := rapid.OneOf(rapid.Float64(), rapid.SampledFrom([]float64{
		math.NaN(), math.Inf(1), math.Inf(-1), 0, math.Copysign(0, -1), 1, 3, most, -most, math.MaxFloat64,
		math.SmallestNonzeroFloat64, 1e16, 1e16 + 2, 1e-290,
	}))
	values := rapid.SliceOfN(value, 0, 5)
	series := rapid.Custom(func(t *rapid.T) Series {
		name := string(rapid.SliceOf(rapid.Byte()).Draw(t, "name"))
		return Series{name, values.Draw(t, "x"), values.Draw(t, "y")}
	})
	rapid.Check(t, func(t *rapid.T) {
		p := Plot{Title: rapid.String().Draw(t, "title"), Series: rapid.SliceOfN(series, 0, 9).Draw(t, "series")}
		tags, _ := elements(t, p.Draw())
		if n := tags["line"]; n < 2 || n > 16 {
			t.Fatalf("%d marks", n)
		}
	})
}

func TestMarks(t *testing.T) {
	for _, c := range []struct {
		values []float64
		want   string
	}{
		{nil, "0 1"},
		{[]float64{3}, "3"},
		{[]float64{0, 2}, "0 1 2"},
		{[]float64{0, 60}, "0 10 20 30 40 50 60"},
		{[]float64{-.1, .3}, "-0.1 0 0.1 0.2 0.3"},
		{[]float64{-.03, .3}, "0 0.1 0.2 0.3"},
		{[]float64{2.153, 4.161}, "2.5 3 3.5 4"},
		{[]float64{0, 5e9}, "0 1000000000 2000000000 3000000000 4000000000 5000000000"},
		{[]float64{0, 1.1e-7}, "0 2e-08 4e-08 6e-08 8e-08 1e-07"},
	} {
		var marks []string
		for _, v := range newAxis(c.values, 0, 1).marks() {
			marks = append(marks, label(v))
		}
		if got := strings.Join(marks, " "); got != c.want {
			t.Errorf("%v: %s, want %s", c.values, got, c.want)
		}
	}
}
