package chain

import (
	"math"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// Values without measure earn no credit, by the norms of members that have earned a seat.
func TestOverlongContributionsEarnNothing(t *testing.T) {
	for _, c := range []struct {
		name, members, contributors string
		norms                       []float64
		want                        string
	}{
		{"just 8 times as long", "A32 B32 C32 x5", "abcx", []float64{1, 2, 3, 8}, "A40 B40 C40 x13"},
		{"longer", "A32 B32 C32 x5", "abcx", []float64{1, 2, 3, 16.01}, "A40 B40 C40 x4"},
		{
			"newcomers do not say what is usual", "A32 B32 x5 y5 z5", "abxyz",
			[]float64{1, 1, 10, 10, 10},
			"A40 B40 x4 y4 z4",
		},
		{"nor do they where many are short", "A32 x5 y5", "axy", []float64{8, .1, .1}, "A40 x13 y13"},
		{"who has earned a seat counts", "A32 b32 c32 x0", "abcx", []float64{1, 10, 10, 80}, "A40 b40 c40 x8"},
		{"newcomers alone", "A32 x0 y0 z0", "xyz", []float64{1, 1, 9}, "A31 x8 y8 z0"},
		{"the others send nothing", "A32 B32 x0", "abx", []float64{0, 0, 9}, "A40 B40 x8"},
		{"an elector", "A32 B32 C32", "abc", []float64{1, 1, 9}, "A40 B40 C31"},
		{"as far as numbers go", "A32 x0", "ax", []float64{math.MaxFloat64 / 2, math.MaxFloat64}, "A40 x8"},
	} {
		w := found(t, seatRules(1), c.members)
		r := w.record(c.contributors, seatElements)
		for i := range r.Contributions {
			r.Contributions[i].NormSq = c.norms[i] * c.norms[i]
			if math.IsInf(r.Contributions[i].NormSq, 0) {
				r.Contributions[i].NormSq = c.norms[i]
			}
		}
		if got := w.stay(r); got != c.want {
			t.Errorf("%s: %s became %s, want %s", c.name, c.members, got, c.want)
		}
	}
}

// While three members with a vote train, a step to which fewer of them contributed earns a newcomer
// next to nothing: nobody has judged what it sent.
func TestUnjudgedStepsEarnNewcomersLittle(t *testing.T) {
	for _, c := range []struct{ name, members, contributors, want string }{
		{"all of three", "A32 B32 C32 x0", "abcx", "A40 B40 C40 x8"},
		{"two of three", "A32 B32 C32 x3", "abx", "A40 B40 C31 x4"},
		{"one of three", "A32 B32 C32 x3", "ax", "A40 B31 C31 x4"},
		{"three of four", "A32 B32 C32 D32 x3", "abcx", "A40 B40 C40 D31 x11"},
		{"the third trains no more", "A32 B32 C0 x3", "abx", "A40 B40 C0 x11"},
		{"two are no judges", "A32 B32 x3", "ax", "A40 B31 x11"},
		{"a founder that trains nothing", "A32 x0 y0", "xy", "A31 x8 y8"},
		{"who does not contribute loses all the same", "A32 B32 C32 x3 y3", "abx", "A40 B40 C31 x4 y2"},
	} {
		w := found(t, seatRules(1), c.members)
		if got := w.stay(w.record(c.contributors, seatElements)); got != c.want {
			t.Errorf("%s: %s became %s, want %s", c.name, c.members, got, c.want)
		}
	}
}

// What is marked as against the others in so many of the 8 elements earns nothing, and takes away
// as much as another one earns where that is more than half of them.
func TestContributionsThatAreMarked(t *testing.T) {
	for _, c := range []struct {
		name, members, contributors string
		segments                    []int // elements of each
		marks                       []slot.Bitmap
		want                        string
	}{
		{"nowhere", "A32 B32 C32 x9", "abcx", []int{8}, []slot.Bitmap{nil}, "A40 B40 C40 x17"},
		{"everywhere", "A32 B32 C32 x9", "abcx", []int{8}, []slot.Bitmap{{8}}, "A40 B40 C40 x1"},
		{"no credit is below 0", "A32 B32 C32 x5", "abcx", []int{8}, []slot.Bitmap{{8}}, "A40 B40 C40 x0"},
		{"in more than half", "A32 B32 C32 x9", "abcx", []int{3, 5}, []slot.Bitmap{nil, {8}}, "A40 B40 C40 x1"},
		{"in half", "A32 B32 C32 x9", "abcx", []int{4, 4}, []slot.Bitmap{{8}, nil}, "A40 B40 C40 x17"},
		{"an elector", "A32 B32 C32 D32", "abcd", []int{8}, []slot.Bitmap{{4}}, "A40 B40 C24 D40"},
	} {
		w := found(t, seatRules(1), c.members)
		r := w.record(c.contributors, seatElements)
		set, at := r.Segments[0].Contributors, uint64(0)
		r.Segments = nil
		for i, n := range c.segments {
			s := slot.Segment{
				Range: slot.Range{Begin: at, End: at + uint64(n)}, Contributors: set, Against: c.marks[i],
			}
			at = s.Range.End
			r.Segments = append(r.Segments, s)
		}
		if got := w.stay(r); got != c.want {
			t.Errorf("%s: %s became %s, want %s", c.name, c.members, got, c.want)
		}
	}
}

func TestJudges(t *testing.T) {
	for _, c := range []struct {
		members, contributors, want string
		byzantine                   bool
	}{
		{"A32 B32 C32 x5", "abcx", "abc", true},
		{"A32 B32 C32 D32 x5", "bcdx", "bcd", true},
		{"A32 B32 C32 x5 y9", "abxy", "", true}, // two may both be wrong
		{"A32 B32 C32 x5", "abcx", "", false},
	} {
		rules := seatRules(1)
		rules.Byzantine = c.byzantine
		w := found(t, rules, c.members)
		got, offers := "", w.record(c.contributors, seatElements).Contributions
		for i, judges := 0, w.Judges(offers); i < len(offers); i++ {
			if judges.Has(i) {
				got += string(c.contributors[i])
			}
		}
		if got != c.want {
			t.Errorf("of %s the members %s judge among %s, want %s", c.members, got, c.contributors, c.want)
		}
	}
}
