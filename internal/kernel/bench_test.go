package kernel

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

const benchElements = 1 << 20

// benchColumns are n columns of a million elements, with scales of 1.
func benchColumns(n int) (cols [][]float32, scale []float32) {
	r := rand.New(rand.NewPCG(3, 4))
	for range n {
		cols, scale = append(cols, noise(r, benchElements)), append(scale, 1)
	}
	return cols, scale
}

// benchmark runs f, which reads and writes that many vectors in all.
func benchmark(b *testing.B, vectors int, f func()) {
	b.SetBytes(int64(vectors) * 4 * benchElements)
	b.ReportAllocs()
	for b.Loop() {
		f()
	}
}

func BenchmarkElementwise(b *testing.B) {
	x, _ := benchColumns(4)
	b.Run("Sub", func(b *testing.B) { benchmark(b, 3, func() { Sub(x[0], x[1], x[2]) }) })
	b.Run("Bounded", func(b *testing.B) { benchmark(b, 1, func() { Bounded(x[1]) }) })
	b.Run("Dot", func(b *testing.B) { benchmark(b, 2, func() { Dot(x[1], x[2]) }) })
	b.Run("NormSq", func(b *testing.B) { benchmark(b, 1, func() { NormSq(x[1]) }) })
	b.Run("SGDStep", func(b *testing.B) { benchmark(b, 3, func() { SGDStep(x[0], x[1], 0.7) }) })
	b.Run("MomentumStep", func(b *testing.B) { benchmark(b, 5, func() { MomentumStep(x[0], x[3], x[1], 0.7, 0.9) }) })
	b.Run("NesterovStep", func(b *testing.B) { benchmark(b, 5, func() { NesterovStep(x[0], x[3], x[1], 0.7, 0.9) }) })
	b.Run("DelayedMomentumStep", func(b *testing.B) {
		benchmark(b, 7, func() { DelayedMomentumStep(x[0], x[3], x[2], x[1], 0.7, 0.9, 0.25) })
	})
	clear(x[2])
	b.Run("AdamStep", func(b *testing.B) {
		benchmark(b, 7, func() { AdamStep(x[0], x[3], x[2], x[1], AdamAt(0.01, 0.9, 0.99, 1e-8, 3)) })
	})
	buf := make([]byte, 4*benchElements)
	b.Run("GetFloat32s", func(b *testing.B) { benchmark(b, 2, func() { GetFloat32s(x[1], buf) }) })
}

func BenchmarkReduce(b *testing.B) {
	for _, n := range []int{4, 8, 16} {
		cols, scale := benchColumns(n)
		dst := make([]float32, benchElements)
		b.Run(fmt.Sprint("Mean/N=", n), func(b *testing.B) {
			benchmark(b, n+1, func() { MeanInto(dst, cols, scale) })
		})
		for k := 1; k <= n/4; k++ {
			b.Run(fmt.Sprint("TrimmedMean/N=", n, "/k=", k), func(b *testing.B) {
				benchmark(b, n+1, func() { TrimmedMeanInto(dst, cols, scale, k) })
			})
		}
		b.Run(fmt.Sprint("Median/N=", n), func(b *testing.B) {
			benchmark(b, n+1, func() { MedianInto(dst, cols, scale) })
		})
	}
}

func BenchmarkQuantise(b *testing.B) {
	x, _ := benchColumns(1)
	for _, q := range quantisers {
		enc := make([]byte, q.size(benchElements))
		bytes := int64(4*benchElements + len(enc))
		b.Run(q.name+"/Encode", func(b *testing.B) {
			b.SetBytes(bytes)
			for b.Loop() {
				q.encode(enc, x[0])
			}
		})
		b.Run(q.name+"/Decode", func(b *testing.B) {
			b.SetBytes(bytes)
			for b.Loop() {
				q.decode(x[0], enc)
			}
		})
	}
}
