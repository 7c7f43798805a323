package builtin

import (
	"math"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/trainer"
)

// reference is AdamW as the paper writes it, one element, in float64.
type reference struct{ m, v, b1, b2 float64 }

func (r *reference) step(c Config, x, g, rate, decay float64) float64 {
	r.m = c.Beta1*r.m + (1-c.Beta1)*g
	r.v = c.Beta2*r.v + (1-c.Beta2)*g*g
	r.b1, r.b2 = r.b1*c.Beta1, r.b2*c.Beta2
	return x - rate*decay*x - rate*(r.m/(1-r.b1))/(math.Sqrt(r.v/(1-r.b2))+c.Epsilon)
}

func TestAdamW(t *testing.T) {
	c := Config{WarmUp: 4, Epsilon: 1e-3, Clip: 2}.WithDefaults()
	o := newAdamW(c, trainer.Layout{{Name: "gain", Shape: []uint64{1}}, {Name: "matrix", Shape: []uint64{1, 1}}}, nil)
	got := []float32{1, 1}
	want := []float64{1, 1}
	refs := []*reference{{b1: 1, b2: 1}, {b1: 1, b2: 1}}
	for step := 1; step <= 10; step++ {
		g := []float64{math.Sin(float64(step)), 3 * math.Cos(float64(step))}
		shrink := min(1, 2/math.Hypot(g[0], g[1]))
		o.step(got, []float32{float32(g[0]), float32(g[1])})
		rate := c.LearningRate * min(1, float64(step)/4)
		for i, decay := range []float64{0, c.WeightDecay} {
			want[i] = refs[i].step(c, want[i], g[i]*shrink, rate, decay)
			if math.Abs(float64(got[i])-want[i]) > 1e-6 {
				t.Fatalf("step %d, element %d: %v, want %v", step, i, got[i], want[i])
			}
		}
	}
}

func TestClipNegativeMeansNone(t *testing.T) {
	v := []float32{30, 40}
	if clipNorm(v, -1); v[0] != 30 {
		t.Errorf("clipped to %v", v)
	}
	if clipNorm(v, 5); v[0] != 3 || v[1] != 4 {
		t.Errorf("norm 50 clipped to 5 gives %v, want [3 4]", v)
	}
}
