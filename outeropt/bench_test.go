package outeropt

import (
	"fmt"
	"runtime"
	"testing"
)

// The outer step of 16 Mi elements on one core and on all: reads and writes of five vectors.
func BenchmarkOuterStep(b *testing.B) {
	const n = 1 << 24
	params, grad := make([]float32, n), make([]float32, n)
	for j := range grad { // memory that was never written is all one page
		params[j], grad[j] = 1, float32(j%7)
	}
	outer, err := New(Config{Name: Nesterov, LR: 0.7, Momentum: 0.9}, n)
	if err != nil {
		b.Fatal(err)
	}
	for _, cores := range []int{1, runtime.GOMAXPROCS(0)} {
		b.Run(fmt.Sprint("cores=", cores), func(b *testing.B) {
			defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(cores))
			b.SetBytes(5 * 4 * n)
			for b.Loop() {
				Step(outer, params, grad, At{Step: 1, Contributions: 4})
			}
		})
	}
}
