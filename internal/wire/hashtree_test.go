package wire

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"lukechampine.com/blake3"
)

func randomBytes(n int) []byte {
	r := rand.New(rand.NewPCG(1, uint64(n)))
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

func TestSumIsTheLibrarys(t *testing.T) {
	b := randomBytes(3 << 20)
	sizes := []int{0, 1, 63, 64, 65, 1 << 20, 3 << 20, 3<<20 - 1}
	for _, n := range []int{1, 2, 3, 4, 15, 16, 17, 31, 32, 33, 48, 64, 100, 256} {
		sizes = append(sizes, 1024*n-1, 1024*n, 1024*n+1, 1024*n+500)
	}
	r := rand.New(rand.NewPCG(3, 4))
	for range 100 {
		sizes = append(sizes, r.IntN(300_000))
	}
	for _, n := range sizes {
		at := r.IntN(len(b) - n + 1)
		if x := b[at : at+n]; Sum256(x) != blake3.Sum256(x) {
			t.Errorf("%d bytes: %x, want %x", n, Sum256(x), blake3.Sum256(x))
		}
	}
}

func BenchmarkSum256(b *testing.B) {
	for _, n := range []int{1 << 12, 1 << 16, 1 << 18, 1 << 20} {
		x := randomBytes(n)
		for name, f := range map[string]func([]byte) [32]byte{"one thread": Sum256, "library": blake3.Sum256} {
			b.Run(fmt.Sprint(name, "/", n), func(b *testing.B) {
				b.SetBytes(int64(n))
				b.ReportAllocs()
				for b.Loop() {
					f(x)
				}
			})
		}
	}
}
