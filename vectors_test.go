package p2pdiloco

import (
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/internal/kernel"
	"github.com/p2pdiloco/p2pdiloco/internal/parallel"
	"github.com/p2pdiloco/p2pdiloco/outeropt"
)

// However many cores share the work, the bits are those of one call for the whole vector.
func TestVectorsOnAllCores(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(3))
	r := rand.New(rand.NewPCG(1, 2))
	const n = 3*parallel.Block + 17
	vector := func() []float32 {
		x := make([]float32, n)
		for j := range x {
			x[j] = float32(r.NormFloat64())
		}
		return x
	}
	a, b, got, want := vector(), vector(), make([]float32, n), make([]float32, n)
	equal := func(what string) {
		t.Helper()
		if !slices.Equal(got, want) {
			t.Errorf("%s: other values than one call gives", what)
		}
	}
	subtract(got, a, b)
	kernel.Sub(want, a, b)
	equal("subtract")
	mix(got, a, b, 0.3)
	kernel.Mix(want, a, b, 0.3)
	equal("mix")
	for _, name := range []string{outeropt.Nesterov, outeropt.Adam, outeropt.DelayedNesterov} {
		cfg := outeropt.Config{Name: name, LR: 0.1, Momentum: 0.9, Beta2: 0.99, Every: 2}
		if name != outeropt.Adam {
			cfg.Beta2 = 0
		}
		if name != outeropt.DelayedNesterov {
			cfg.Every = 0
		}
		all, whole := optimizer(t, cfg, n+5), optimizer(t, cfg, n+5)
		for step := uint64(1); step < 5; step++ {
			outerStep(all, got, a, outeropt.At{Offset: 5, Step: step})
			whole.Step(want, a, outeropt.At{Offset: 5, Step: step})
		}
		equal(name)
		for i, v := range all.State() {
			if !slices.Equal(v, whole.State()[i]) {
				t.Errorf("%s: vector %d of the state has other values", name, i)
			}
		}
	}
}

func optimizer(t *testing.T, cfg outeropt.Config, elements uint64) outeropt.Optimizer {
	t.Helper()
	o, err := outeropt.New(cfg, elements)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func TestBoundedFindsTheFirstOnAllCores(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(3))
	const n = 4*parallel.Block + 3
	x := make([]float32, n)
	if at := bounded(x); at != -1 {
		t.Errorf("of zeros: %d", at)
	}
	for _, at := range []int{n - 1, 3*parallel.Block + 9, parallel.Block, parallel.Block - 1, 0} {
		x[at] = float32(math.Inf(1))
		if got := bounded(x); got != at {
			t.Errorf("got %d, want %d", got, at)
		}
	}
}
