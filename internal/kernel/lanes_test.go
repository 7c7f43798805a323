package kernel

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// laneValue draws what is hard for an order and a sum: equal values, zeros of both signs,
// subnormals, huge ones.
func laneValue() *rapid.Generator[float32] {
	return rapid.OneOf(
		rapid.Float32Range(-1, 1),
		rapid.SampledFrom([]float32{
			0, float32(math.Copysign(0, -1)), 1, -1, 0.5, 1e-40, -1e-40, 1e30, -1e30,
			math.SmallestNonzeroFloat32,
		}),
	)
}

func bitsEqual(a, b []float32) bool {
	return slices.EqualFunc(a, b, func(x, y float32) bool { return math.Float32bits(x) == math.Float32bits(y) })
}

// One contribution after the other gives the bits that all of them at once give.
func TestLanesAreTheReduction(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 12).Draw(t, "n")
		k := rapid.IntRange(0, (n-1)/2).Draw(t, "k")
		size := rapid.SampledFrom([]int{1, 3, 255, 256, 257, 600}).Draw(t, "size")
		cols := make([][]float32, n)
		scale := make([]float32, n)
		for i := range cols {
			seed := rapid.SliceOfN(laneValue(), 1, 16).Draw(t, "values")
			cols[i] = make([]float32, size)
			for j := range cols[i] {
				cols[i][j] = seed[(j*7+i)%len(seed)]
			}
			scale[i] = rapid.SampledFrom([]float32{1, 0.5, 0, 0.3333}).Draw(t, "scale")
		}
		room := make([]float32, (2*k+1)*size)
		for i := range room {
			room[i] = float32(math.NaN()) // what is behind the lanes must not be read
		}
		for i, c := range cols {
			AddLane(room[:Lanes(k, i+1)*size], c, scale[i], k, i)
		}
		got, want := make([]float32, size), make([]float32, size)
		FinishLanes(got, room, k, n)
		TrimmedMeanInto(want, cols, scale, k)
		if !bitsEqual(got, want) {
			t.Fatalf("the lanes give %v, want %v", got, want)
		}
		if k == 0 {
			MeanInto(want, cols, scale)
			if sum := room[:size]; !bitsEqual(sum, want) {
				t.Fatalf("the sum is %v, want %v", sum, want)
			}
		}
	})
}

// Against sorting: the lanes hold exactly the k lowest and highest, and the rest is summed exactly
// where sums are exact.
func TestLanesAgainstSorting(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 9).Draw(t, "n")
		k := rapid.IntRange(0, (n-1)/2).Draw(t, "k")
		const size = 5
		lanes := make([]float32, (2*k+1)*size)
		seen := make([][]float32, size)
		for i := range n {
			col := make([]float32, size)
			for j := range col {
				col[j] = float32(rapid.IntRange(-50, 50).Draw(t, "v"))
				if rapid.IntRange(0, 9).Draw(t, "huge") == 0 {
					col[j] = 0x1p99
				}
				seen[j] = append(seen[j], col[j])
			}
			AddLane(lanes[:Lanes(k, i+1)*size], col, 1, k, i)
			for j, values := range seen {
				s := slices.Sorted(slices.Values(values))
				want := s
				if len(s) > 2*k {
					want = slices.Concat(s[:k], s[len(s)-k:])
				}
				for l, v := range want {
					if lanes[l*size+j] != v {
						t.Fatalf("after %d values lane %d holds %v, want %v of %v", i+1, l, lanes[l*size+j], v, s)
					}
				}
				if middle := s[min(k, len(s)):max(min(k, len(s)), len(s)-k)]; len(s) > 2*k &&
					!slices.Contains(middle, 0x1p99) {
					sum := float32(0)
					for _, v := range middle {
						sum += v
					}
					if got := lanes[2*k*size+j]; got != sum {
						t.Fatalf("the sum of the rest is %v, want %v of %v", got, sum, s)
					}
				}
			}
		}
	})
}

// What honest peers make of what passes is within the next bound, up to the largest group: nobody
// is blamed for what came to it.
func TestBoundedLanesHoldWhateverIsAdded(t *testing.T) {
	below := math.Nextafter32(Limit, 0)
	for _, k := range []int{0, 1, 5} {
		lanes := make([]float32, (2*k+1)*3)
		for n := range 1024 {
			now := lanes[:Lanes(k, n)*3]
			for i := range now { // as a hostile peer would: as much as passes
				now[i] = below
				if i/3 == 2*k {
					now[i] = float32(n-2*k) * Limit
				}
			}
			if at := BoundedLanes(now, k, n); at >= 0 {
				t.Fatalf("k %d: element %d of %d contributions, %v, is refused", k, at, n, now[at])
			}
			next := lanes[:Lanes(k, n+1)*3]
			AddLane(next, []float32{below, -below, below}, 1, k, n)
			if at := BoundedLanes(next, k, n+1); at >= 0 {
				t.Fatalf("k %d: with one added to %d, element %d, %v, is refused", k, n, at, next[at])
			}
		}
	}
}

func TestBoundedLanes(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for _, c := range []struct{ k, n int }{{0, 1}, {0, 6}, {1, 1}, {1, 2}, {1, 3}, {2, 9}} {
		const size = 11
		x := make([]float32, Lanes(c.k, c.n)*size)
		for i := range x {
			limit := float32(Limit)
			if m := c.n - 2*c.k; i/size == 2*c.k {
				limit *= math.Nextafter32(float32(m), float32(m+1))
			}
			good := math.Nextafter32(limit, 0)
			for _, bad := range []float32{limit, -limit, nan, inf, -inf} {
				y := slices.Clone(x)
				y[i] = bad
				if at := BoundedLanes(y, c.k, c.n); at != i {
					t.Errorf("%v: %v at %d is found at %d", c, bad, i, at)
				}
			}
			if x[i] = good; i%2 == 1 {
				x[i] = -good
			}
		}
		if at := BoundedLanes(x, c.k, c.n); at >= 0 {
			t.Errorf("%v: element %d, %v, is refused", c, at, x[at])
		}
	}
}
