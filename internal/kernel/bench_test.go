package kernel

import (
	"math/rand/v2"
	"testing"
)

const benchElements = 1 << 20

// BenchmarkKernels counts the bytes of all vectors.
func BenchmarkKernels(b *testing.B) {
	all := equations()
	for _, n := range []int{4, 8, 16} {
		all = append(all, reductions(n)...)
	}
	r := rand.New(rand.NewPCG(3, 4))
	for _, e := range all {
		b.Run(e.name, func(b *testing.B) {
			x, s := make(vectors, e.takes), make(scalars, max(e.takes, 8))
			for i := range x {
				x[i] = noise(r, benchElements)
			}
			for i := range s {
				s[i] = 0.5
			}
			b.SetBytes(int64(e.takes) * 4 * benchElements)
			for b.Loop() {
				e.kernel(x, s)
			}
		})
	}
}

func BenchmarkQuantise(b *testing.B) {
	x := noise(rand.New(rand.NewPCG(3, 4)), benchElements)
	b.Run("Copy", func(b *testing.B) { // what the others are held against
		dst := make([]float32, benchElements)
		b.SetBytes(4 * benchElements)
		for b.Loop() {
			copy(dst, x)
		}
	})
	b.Run("Select", func(b *testing.B) { // what topk does of it: the positions of 64 of 4096 values
		room := new(topKRoom)
		b.SetBytes(4 * benchElements)
		for b.Loop() {
			for at := 0; at < benchElements; at += TopKBlock {
				block := x[at:][:TopKBlock]
				room.largest(block, 64, room.maxima(block, 64))
			}
		}
	})
	for _, q := range quantisers {
		enc := make([]byte, q.size(benchElements))
		run := func(name string, f func()) {
			b.Run(q.name+"/"+name, func(b *testing.B) {
				b.SetBytes(int64(4*benchElements + len(enc)))
				for b.Loop() {
					f()
				}
			})
		}
		run("Encode", func() { q.encode(enc, x) })
		run("Decode", func() { q.decode(x, enc) })
	}
}
