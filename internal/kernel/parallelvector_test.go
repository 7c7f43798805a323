package kernel

import (
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// However many cores share the work, the bits are those of one call for the whole vector.
func TestVectorsOnAllCores(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(3))
	r := rand.New(rand.NewPCG(1, 2))
	const n = 3*RangeBlock + 17
	random := func() []float32 {
		x := make([]float32, n)
		for j := range x {
			x[j] = float32(r.NormFloat64())
		}
		return x
	}
	a, b, got, want := random(), random(), make([]float32, n), make([]float32, n)
	equal := func(what string) {
		t.Helper()
		if !slices.Equal(got, want) {
			t.Errorf("%s: other values than one call gives", what)
		}
	}
	ParallelSub(got, a, b)
	Sub(want, a, b)
	equal("Sub")
	ParallelMix(got, a, b, 0.3)
	Mix(want, a, b, 0.3)
	equal("Mix")
}

func TestSubFindsTheFirstBadValueOnAllCores(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(3))
	const n = 4*RangeBlock + 3
	x, zeros := make([]float32, n), make([]float32, n)
	if at := ParallelSub(x, zeros, zeros); at != -1 {
		t.Errorf("of zeros: %d", at)
	}
	for _, at := range []int{n - 1, 3*RangeBlock + 9, RangeBlock, RangeBlock - 1, 0} {
		x[at] = float32(math.Inf(1))
		if got := ParallelSub(x, x, zeros); got != at {
			t.Errorf("got %d, want %d", got, at)
		}
	}
}
