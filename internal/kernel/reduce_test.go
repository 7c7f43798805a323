package kernel

import (
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"
)

// equalBits fails unless the two slices hold the same bits.
func equalBits(t *testing.T, what string, got, want []float32) {
	t.Helper()
	if !slices.EqualFunc(got, want, func(g, w float32) bool { return math.Float32bits(g) == math.Float32bits(w) }) {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

// Among equal values it does not show which is dropped, nor an outlier in the digits of the others,
// nor the sign of a zero.
func TestTrimmedMean(t *testing.T) {
	minus := float32(math.Copysign(0, -1))
	for _, c := range []struct {
		values []float32
		k      int
		want   float32
	}{
		{[]float32{1, 1, 5, 5}, 1, 3},
		{[]float32{5, 1, 5, 1, 5}, 1, 11.0 / 3},
		{[]float32{2, 2, 2, 8, 8, 8}, 2, 5},
		{[]float32{1e30, 0.25, 0.5, -1e30}, 1, 0.375},
		{[]float32{minus}, 0, 0},
		{[]float32{minus, minus, minus}, 1, 0},
		{[]float32{minus, minus, minus, minus, minus}, 2, 0},
	} {
		cols, scale := vectors{}, scalars{}
		for _, v := range c.values {
			cols, scale = append(cols, []float32{v}), append(scale, 1)
		}
		got := []float32{minus}
		TrimmedMeanInto(got, cols, scale, c.k)
		equalBits(t, "trimmed mean", got, []float32{c.want})
	}
}

// With alpha 0 nothing of the first is left, not even what is not finite or the sign of a zero.
func TestMixWithNothing(t *testing.T) {
	nan, zero := float32(math.NaN()), float32(math.Copysign(0, -1))
	got := []float32{nan, 1, float32(math.Inf(1))}
	Mix(got, got, []float32{1, zero, 3}, 0)
	equalBits(t, "Mix", got, []float32{1, zero, 3})
}

func TestClipScales(t *testing.T) {
	for _, c := range []struct {
		norms []float64
		want  []float32
	}{
		{nil, nil},
		{[]float64{3}, []float32{1}},
		{[]float64{1, 8, 2}, []float32{1, 0.25, 1}},
		{[]float64{1, 3, 5, 16}, []float32{1, 1, 0.8, 0.25}}, // the mean of the two in the middle
		{[]float64{0, 2, 4}, []float32{1, 1, 0.5}},
		{[]float64{0, 0, 7}, []float32{1, 1, 0}},
		{[]float64{1, 1, 1e38}, []float32{1, 1, 1e-38}},
	} {
		squares := slices.Clone(c.norms)
		for i, n := range squares {
			squares[i] = n * n
		}
		equalBits(t, "scales", ClipScales(squares), c.want)
	}
}

func TestMeanScales(t *testing.T) {
	equalBits(t, "weights", MeanScales([]uint64{1, 0, 3}), []float32{0.25, 0, 0.75})
	equalBits(t, "all zero", MeanScales([]uint64{0, 0}), []float32{0.5, 0.5})
	equalBits(t, "largest", MeanScales([]uint64{math.MaxUint64, math.MaxUint64}), []float32{0.5, 0.5})
}

// The scalars are near their exact values, however many steps there were.
func TestAdamAt(t *testing.T) {
	exact, beta := big.NewFloat(1).SetPrec(400), big.NewFloat(float64(float32(0.99)))
	for step := uint64(1); step <= 3000; step++ {
		rest, _ := new(big.Float).Sub(big.NewFloat(1), exact.Mul(exact, beta)).Float64()
		a := AdamAt(0.3, 0.99, 0.99, 1e-8, step)
		if math.Abs(float64(a.Size)*rest-0.3) > 1e-7 || math.Abs(float64(a.Root)-math.Sqrt(rest)) > 1e-7 {
			t.Fatalf("step %d: %+v, of a rest of %v", step, a, rest)
		}
	}
	if a := AdamAt(0.3, 0.9, 0.99, 1e-8, math.MaxUint64); a.Size != 0.3 || a.Root != 1 {
		t.Errorf("after 2^64 steps: %+v", a)
	}
}

// The lanes hold exactly the k lowest and highest, whatever is in the rest.
func TestLanesAgainstSorting(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 500 {
		k := r.IntN(4)
		lanes, seen := make([]float32, 2*k+1), []float32(nil)
		for n := range 2*k + 3 {
			v := float32(r.IntN(5)) - 2
			seen = append(seen, v)
			slices.Sort(seen)
			AddLane(lanes[:Lanes(k, n+1)], []float32{v}, 1, k, n)
			if n < 2*k {
				equalBits(t, "lanes", lanes[:n+1], seen)
				continue
			}
			sum := float32(0)
			for _, v := range seen[k : n+1-k] {
				sum += v
			}
			equalBits(t, "lanes", lanes, slices.Concat(seen[:k], seen[n+1-k:], []float32{sum}))
		}
	}
}

// Of values that may be as large as a limit the first that is not is found, wherever it is.
func TestBounded(t *testing.T) {
	inf := float32(math.Inf(1))
	type row struct {
		name  string
		find  func(x []float32) int
		limit func(i, n int) float32 // the least magnitude that is not allowed
	}
	rows := []row{
		{"Bounded", Bounded, func(int, int) float32 { return Limit }},
		{"BoundedMean", BoundedMean, func(int, int) float32 { return math.Nextafter32(2*Limit, inf) }},
	}
	for _, c := range [][2]int{{0, 1}, {0, 6}, {1, 1}, {1, 2}, {1, 3}, {2, 9}} {
		k, n := c[0], c[1]
		rows = append(rows, row{"BoundedLanes", func(x []float32) int {
			if len(x)%Lanes(k, n) != 0 {
				return -2
			}
			return BoundedLanes(x, k, n)
		}, func(i, all int) float32 {
			if i/(all/Lanes(k, n)) < 2*k {
				return Limit
			}
			return Limit * math.Nextafter32(float32(n-2*k), inf)
		}})
	}
	for _, row := range rows {
		for n := range 40 {
			x := make([]float32, n)
			if row.find(x) == -2 {
				continue
			}
			for j := range x {
				limit := row.limit(j, n)
				nan, other := float32(math.NaN()), math.Float32frombits(0xff800001)
				for _, bad := range []float32{limit, -limit, inf, -inf, nan, other} {
					y := slices.Clone(x)
					y[n-1], y[j] = inf, bad
					if got := row.find(y); got != j {
						t.Fatalf("%s: %v at %d of %d is found at %d", row.name, bad, j, n, got)
					}
				}
				if x[j] = math.Nextafter32(limit, 0); j%2 == 1 {
					x[j] = -x[j]
				}
			}
			if got := row.find(x); got != -1 {
				t.Fatalf("%s: %v at %d of %d is not allowed", row.name, x[got], got, n)
			}
		}
	}
}

// What honest peers make of what passes is within the next bound, up to the largest group: nobody
// is blamed for what came to it.
func TestBoundedLanesHoldWhateverIsAdded(t *testing.T) {
	below := math.Nextafter32(Limit, 0)
	for _, k := range []int{0, 1, 5} {
		lanes := make([]float32, (2*k+1)*3)
		for n := range 1024 {
			for i := range lanes[:Lanes(k, n)*3] { // as a hostile peer would: as much as passes
				if lanes[i] = below; i/3 == 2*k {
					lanes[i] = float32(n-2*k) * Limit
				}
			}
			next := lanes[:Lanes(k, n+1)*3]
			AddLane(next, []float32{below, -below, below}, 1, k, n)
			if at := BoundedLanes(next, k, n+1); at >= 0 {
				t.Fatalf("k %d: with one added to %d, element %d, %v, is refused", k, n, at, next[at])
			}
		}
	}
}
