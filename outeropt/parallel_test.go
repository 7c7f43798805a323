package outeropt

import (
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/internal/kernel"
)

// However many cores share a step, the bits are those of one call for the whole vector.
func TestStepOnAllCores(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(3))
	r := rand.New(rand.NewPCG(1, 2))
	const n = 3*kernel.RangeBlock + 17
	grad, got := make([]float32, n), make([]float32, n)
	for j := range grad {
		grad[j], got[j] = float32(r.NormFloat64()), float32(r.NormFloat64())
	}
	want := slices.Clone(got)
	for _, name := range []string{Nesterov, Adam, DelayedNesterov} {
		cfg := Config{Name: name, LR: 0.1, Momentum: 0.9, Beta2: 0.99, Every: 2}
		if name != Adam {
			cfg.Beta2 = 0
		}
		if name != DelayedNesterov {
			cfg.Every = 0
		}
		all, err1 := New(cfg, n+5)
		whole, err2 := New(cfg, n+5)
		if err1 != nil || err2 != nil {
			t.Fatal(err1, err2)
		}
		for step := uint64(1); step < 5; step++ {
			Step(all, got, grad, At{Offset: 5, Step: step, Contributions: 2})
			whole.Step(want, grad, At{Offset: 5, Step: step, Contributions: 2})
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: other values than one call gives", name)
		}
		for i, v := range all.State() {
			if !slices.Equal(v, whole.State()[i]) {
				t.Errorf("%s: vector %d of the state has other values", name, i)
			}
		}
	}
}
