//go:build cgo && unix

package cgo

import (
	"context"
	"fmt"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/internal/kernel"
)

func openBench(b *testing.B, size int) Library {
	b.Helper()
	p, err := Open(b.Context(), Config{Path: libraryFile("bowl"), Config: fmt.Sprintf(`{"size": %d}`, size)})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = p.Close() })
	return p
}

// BenchmarkCall is a call of the library that does next to nothing: what the locked thread costs.
func BenchmarkCall(b *testing.B) {
	p := openBench(b, 1000)
	one := []float32{1}
	for b.Loop() {
		if err := p.LoadRange(context.Background(), 0, one); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkExport copies the parameters out, and the pseudo-gradient with the node's check of every
// range; copy is what one core does with the same bytes in this process.
func BenchmarkExport(b *testing.B) {
	const size = 64 << 20
	p := openBench(b, size)
	start, local, err := p.MakeVectors(size)
	if err != nil {
		b.Fatal(err)
	}
	if err := p.Load(b.Context(), start); err != nil {
		b.Fatal(err)
	}
	b.Run("copy", func(b *testing.B) {
		b.SetBytes(4 * size)
		for b.Loop() {
			copy(local, start)
		}
	})
	b.Run("params", func(b *testing.B) {
		b.SetBytes(4 * size)
		for b.Loop() {
			if err := p.Export(context.Background(), local); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("gradient", func(b *testing.B) {
		b.SetBytes(4 * size)
		for b.Loop() {
			err := p.ExportGradient(context.Background(), start, local, func(begin, end int) error {
				if kernel.Bounded(local[begin:end]) >= 0 {
					b.Error("not finite")
				}
				return nil
			})
			if err != nil {
				b.Fatal(err)
			}
		}
	})
}
