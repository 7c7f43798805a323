package kernel

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// values are the scaled values of all columns at coordinate j.
func values(cols [][]float32, scale []float32, j int) []float32 {
	v := make([]float32, len(cols))
	for i := range cols {
		v[i] = scale[i] * cols[i][j]
	}
	return v
}

// trimReference is the definition at TrimmedMeanInto, word for word: what falls out when a value
// joins the lanes is the one in the middle of the 2k+1.
func trimReference(v []float32, k int) float32 {
	lanes := slices.Clone(v[:2*k])
	sum := float32(0)
	for _, x := range v[2*k:] {
		lanes = append(lanes, x)
		slices.SortFunc(lanes, cmp.Compare[float32])
		sum += lanes[k]
		lanes = slices.Delete(lanes, k, k+1)
	}
	return sum / float32(len(v)-2*k)
}

// exactTrim trims after sorting and sums in float64.
func exactTrim(v []float32, k int) float64 {
	s := slices.Sorted(slices.Values(v))
	sum := 0.0
	for _, x := range s[k : len(s)-k] {
		sum += float64(x)
	}
	return sum / float64(len(v)-2*k)
}

// columns draws n columns of equal length and their scales.
func columns(t *rapid.T, n int) (cols [][]float32, scale []float32) {
	draw := vector(t)
	for i := range n {
		cols = append(cols, draw(fmt.Sprint("column", i)))
	}
	return cols, rapid.SliceOfN(rapid.Float32Range(0, 1), n, n).Draw(t, "scale")
}

func TestMeanMatchesReference(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cols, scale := columns(t, rapid.IntRange(1, 10).Draw(t, "N"))
		want := make([]float32, len(cols[0]))
		for j := range want {
			for _, v := range values(cols, scale, j) {
				want[j] += v
			}
		}
		got := make([]float32, len(want))
		MeanInto(got, cols, scale)
		equalBits(t, "MeanInto", got, want)
		MeanInto(cols[0], cols, scale)
		equalBits(t, "MeanInto a column", cols[0], want)
	})
}

func TestTrimmedMeanMatchesReference(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 10).Draw(t, "N")
		k := rapid.IntRange(0, (n-1)/2).Draw(t, "k")
		cols, scale := columns(t, n)
		want := make([]float32, len(cols[0]))
		for j := range want {
			want[j] = trimReference(values(cols, scale, j), k)
		}
		got := make([]float32, len(want))
		TrimmedMeanInto(got, cols, scale, k)
		equalBits(t, "TrimmedMeanInto", got, want)
		for j := range got {
			v := values(cols, scale, j)
			magnitude := 0.0
			for _, x := range slices.Sorted(slices.Values(v))[k : n-k] {
				magnitude += math.Abs(float64(x))
			}
			if exact := exactTrim(v, k); math.Abs(float64(got[j])-exact) > 1e-6*magnitude+1e-37 {
				t.Fatalf("element %d is %v, the exact trimmed mean %v", j, got[j], exact)
			}
		}
		TrimmedMeanInto(cols[n-1], cols, scale, k)
		equalBits(t, "TrimmedMeanInto a column", cols[n-1], want)
	})
}

func TestMedianMatchesSort(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cols, scale := columns(t, rapid.IntRange(1, 10).Draw(t, "N"))
		want := make([]float32, len(cols[0]))
		for j := range want {
			s := slices.Sorted(slices.Values(values(cols, scale, j)))
			want[j] = s[len(s)/2]
			if len(s)%2 == 0 {
				want[j] = (s[len(s)/2-1] + s[len(s)/2]) / 2
			}
		}
		got := make([]float32, len(want))
		MedianInto(got, cols, scale)
		for j := range got {
			if got[j] != want[j] { // values, not bits: a sorted zero keeps its sign
				t.Fatalf("element %d is %v, want %v", j, got[j], want[j])
			}
		}
	})
}

// Outliers in up to k columns, however large, must not change what is kept: neither whose they are
// nor what they are.
func TestOutliersLeaveNoTrace(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		k := rapid.IntRange(1, 3).Draw(t, "k")
		n := rapid.IntRange(2*k+1, 9).Draw(t, "N")
		cols, scale := columns(t, n)
		for i := range scale {
			scale[i] = 1
		}
		bad := rapid.Permutation(slices.Collect(func(yield func(int) bool) {
			for i := range n {
				if !yield(i) {
					return
				}
			}
		})).Draw(t, "order")[:k]
		reduce := func(outlier float32) []float32 {
			mine := slices.Clone(cols)
			for _, i := range bad {
				mine[i] = slices.Repeat([]float32{outlier}, len(cols[i]))
			}
			got := make([]float32, len(cols[0]))
			TrimmedMeanInto(got, mine, scale, k)
			return got
		}
		equalBits(t, "1e30 against 3e38", reduce(1e30), reduce(3e38))
		equalBits(t, "-1e30 against -3e38", reduce(-1e30), reduce(-3e38))
		for j, v := range reduce(1e30) {
			if math.Abs(float64(v)) > 1.01e15 {
				t.Fatalf("element %d is %v: an outlier got in", j, v)
			}
		}
	})
}

// What sum - lowest - highest would lose.
func TestOutlierDoesNotEraseDigits(t *testing.T) {
	cols := [][]float32{{1e30}, {0.25}, {0.5}, {-1e30}}
	got := []float32{0}
	TrimmedMeanInto(got, cols, []float32{1, 1, 1, 1}, 1)
	equalBits(t, "trimmed mean", got, []float32{0.375})
}

func TestTiesDropOneInstance(t *testing.T) {
	for _, c := range []struct {
		values []float32
		k      int
		want   float32
	}{
		{[]float32{1, 1, 1, 1}, 1, 1},
		{[]float32{1, 1, 5, 5}, 1, 3},
		{[]float32{5, 1, 5, 1, 5}, 1, 11.0 / 3},
		{[]float32{2, 2, 2, 8, 8, 8}, 2, 5},
		{[]float32{7, 7, 7, 7, 7}, 2, 7},
	} {
		cols, scale := [][]float32{}, []float32{}
		for _, v := range c.values {
			cols, scale = append(cols, []float32{v}), append(scale, 1)
		}
		got := []float32{0}
		TrimmedMeanInto(got, cols, scale, c.k)
		equalBits(t, fmt.Sprintf("%v k=%d", c.values, c.k), got, []float32{c.want})
	}
}

func TestSignOfZeroDoesNotShow(t *testing.T) {
	minus := float32(math.Copysign(0, -1))
	for n := 1; n <= 5; n++ {
		cols, scale := slices.Repeat([][]float32{{minus}}, n), slices.Repeat([]float32{1}, n)
		got := []float32{minus}
		MeanInto(got, cols, scale)
		equalBits(t, "mean", got, []float32{0})
		TrimmedMeanInto(got, cols, scale, (n-1)/4)
		equalBits(t, "trimmed mean", got, []float32{0})
		MedianInto(got, cols, scale)
		equalBits(t, "median", got, []float32{0})
	}
}
