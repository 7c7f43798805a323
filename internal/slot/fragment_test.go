package slot

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func flat(name string, n uint64) Tensor { return Tensor{Name: name, Shape: []uint64{n}} }

func TestFragmentsOfALayout(t *testing.T) {
	blocks := Layout{
		flat("wte", 10), flat("h.0.a", 4), flat("h.0.b", 6), flat("h.1.a", 4), flat("h.1.b", 6), flat("h.2.a", 10),
		flat("h.3.a", 10), flat("lnf", 10),
	}
	scattered := Layout{flat("model.layers.1.w", 2), flat("head", 2), flat("model.layers.0.w", 2), flat("tail", 2)}
	for _, c := range []struct {
		name    string
		layout  Layout
		n       uint64
		strided bool
		want    string
	}{
		{"one", scattered, 1, true, "[[{0 8}]]"},
		{"sequential", blocks, 3, false, "[[{0 20}] [{20 40}] [{40 60}]]"},
		{"strided: wte and 0, 2 and 1, 3 and lnf", blocks, 3, true, "[[{0 20}] [{20 30} {40 50}] [{30 40} {50 60}]]"},
		{"strided by two: wte 0 2, 1 3 lnf", blocks, 2, true, "[[{0 20} {30 40}] [{20 30} {40 60}]]"},
		{
			"layers are ordered by number, what has none keeps to the back", scattered, 2, true,
			"[[{0 2} {4 6}] [{2 4} {6 8}]]",
		},
		{"a tensor is cut", Layout{flat("x", 7)}, 3, true, "[[{0 3}] [{3 5}] [{5 7}]]"},
		{"an element each", Layout{flat("x", 2), flat("y", 1)}, 3, true, "[[{0 1}] [{1 2}] [{2 3}]]"},
		{
			"no layers",
			Layout{flat("x", 4), flat("v9.w2", 4), flat("+1", 4), flat("-1", 4)},
			2, true,
			"[[{0 8}] [{8 16}]]",
		},
		{
			"a number too long is no layer",
			Layout{flat("a.12345678901", 4), flat("a.1", 4)},
			2, true,
			"[[{0 4}] [{4 8}]]",
		},
	} {
		var got [][]Range
		for _, f := range Fragments(c.layout, c.n, c.strided) {
			got = append(got, f.Ranges)
		}
		if s := fmt.Sprint(got); s != c.want {
			t.Errorf("%s: %s, want %s", c.name, s, c.want)
		}
	}
}

// Every element is in one fragment, in one range; sizes differ by one at most; ranges ascend and do
// not touch; gathered and scattered, a vector is what it was.
func TestFragmentsCoverEveryElementOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var l Layout
		for i := range rapid.IntRange(1, 12).Draw(t, "tensors") {
			name := fmt.Sprintf("t%d", i)
			if rapid.Bool().Draw(t, "in a layer") {
				name = fmt.Sprintf("h.%d.%s", rapid.IntRange(0, 5).Draw(t, "layer"), name)
			}
			l = append(l, flat(name, uint64(rapid.IntRange(1, 40).Draw(t, "size"))))
		}
		d := l.Elements()
		n := rapid.Uint64Range(1, min(d, MaxFragments)).Draw(t, "fragments")
		vector, back := make([]float32, d), make([]float32, d)
		for i := range vector {
			vector[i] = float32(i + 1)
		}
		sizes, seen := FragmentElements(d, n), make([]int, d)
		for p, f := range Fragments(l, n, rapid.Bool().Draw(t, "strided")) {
			if f.Elements() != sizes[p] || sizes[p] < d/n || sizes[p] > sizes[0] || sizes[0] > d/n+1 {
				t.Fatalf("fragment %d of %d has %d elements of %d, %d were said", p, n, f.Elements(), d, sizes[p])
			}
			for i, r := range f.Ranges {
				if r.Len() == 0 || i > 0 && f.Ranges[i-1].End >= r.Begin {
					t.Fatalf("ranges %v", f.Ranges)
				}
				for at := r.Begin; at < r.End; at++ {
					seen[at]++
				}
			}
			var part []float32
			for _, r := range f.Ranges {
				part = append(part, vector[r.Begin:r.End]...)
			}
			if !slices.IsSorted(part) {
				t.Fatal("the ranges are not in the order of the vector")
			}
			for _, r := range f.Ranges {
				part = part[copy(back[r.Begin:r.End], part):]
			}
		}
		if slices.ContainsFunc(seen, func(n int) bool { return n != 1 }) || !slices.Equal(vector, back) {
			t.Fatalf("elements are covered %v times", seen)
		}
	})
}

func TestSlotsTakeFragmentsInTurn(t *testing.T) {
	for slotNumber, want := range map[uint64]uint32{1: 0, 2: 1, 3: 2, 4: 0, 300: 2, 301: 0} {
		if got := FragmentOf(slotNumber, 3); got != want {
			t.Errorf("slot %d: fragment %d, want %d", slotNumber, got, want)
		}
	}
	if FragmentOf(0, 1) != 0 || FragmentOf(1, 1) != 0 {
		t.Error("one fragment")
	}
}
