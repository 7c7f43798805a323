package reduce

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/allreduce/codec"
)

// The reference takes what the aggregator gives, and not what is off by a little somewhere.
func TestReference(t *testing.T) {
	for _, aggregator := range aggregators() {
		for _, name := range codec.Names() {
			t.Run(fmt.Sprint(aggregator, " ", name), func(t *testing.T) { testReference(t, aggregator, name) })
		}
	}
}

func testReference(t *testing.T, aggregator, name string) {
	k, err := codec.New(name)
	if err != nil {
		t.Fatal(err)
	}
	c := Default()
	c.Aggregator, c.Codec, c.Elements, c.Frame = aggregator, name, 1500, 1024
	r := newReference(c, k)
	const from = 1024 // the last frame, a short one
	cols := make([][]float64, c.Members)
	for i := range cols {
		cols[i] = r.decoded(t, i, from, int(c.Elements-from))
	}
	if c.params().Clip {
		clip(cols)
	}
	outcome := make([]float32, c.Elements-from)
	for j := range outcome {
		values := make([]float64, c.Members)
		for i := range values {
			values[i] = cols[i][j]
		}
		slices.Sort(values)
		outcome[j] = float32(expected(aggregator, values))
	}
	good := r.outcome.Append(nil, outcome)
	if worst, allowed, err := r.check(good, from); err != nil || worst > allowed {
		t.Errorf("off by %g where %g is allowed: %v", worst, allowed, err)
	}
	outcome[7] += 0.01
	if worst, allowed, err := r.check(r.outcome.Append(nil, outcome), from); err != nil || worst <= allowed {
		t.Errorf("an element that is wrong by a hundredth passes: off by %g where %g is allowed: %v", worst, allowed,
			err)
	}
	if _, _, err := r.check(good[:len(good)-1], from); err == nil {
		t.Error("a short frame passes")
	}
}

func (r *reference) decoded(t *testing.T, peer int, from uint64, n int) []float64 {
	x := make([]float32, n)
	fill(x, peer, from)
	if err := r.codec.Decode(x, r.codec.Append(nil, x)); err != nil {
		t.Fatal(err)
	}
	wide := make([]float64, n)
	for j, v := range x {
		wide[j] = float64(v)
	}
	return wide
}

// clip brings each contribution's norm down to the median, of four.
func clip(cols [][]float64) {
	var norms []float64
	for _, x := range cols {
		sum := 0.0
		for _, v := range x {
			sum += v * v
		}
		norms = append(norms, math.Sqrt(sum))
	}
	sorted := slices.Sorted(slices.Values(norms))
	for i, x := range cols {
		for j := range x {
			x[j] *= min(1, (sorted[1]+sorted[2])/2/norms[i])
		}
	}
}

func expected(aggregator string, v []float64) float64 {
	if aggregator == "mean" {
		return (v[0] + v[1] + v[2] + v[3]) / 4
	}
	return (v[1] + v[2]) / 2
}

// Peers have different values, of both signs, bounded.
func TestValues(t *testing.T) {
	a, b := make([]float32, 1000), make([]float32, 1000)
	fill(a, 0, 5)
	fill(b, 1, 5)
	same, sum := 0, 0.0
	for j := range a {
		if a[j] == b[j] {
			same++
		}
		if math.Abs(float64(a[j])) > 0.001 || value(0, 5+uint64(j)) != a[j] {
			t.Fatalf("element %d is %g", j, a[j])
		}
		sum += float64(a[j])
	}
	if same > 2 || math.Abs(sum) > 0.1 {
		t.Errorf("%d elements are equal, the sum is %g", same, sum)
	}
}
