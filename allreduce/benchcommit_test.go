package allreduce

import (
	"testing"

	"github.com/p2pdiloco/p2pdiloco/allreduce/codec"
)

// What a peer does before it offers: decode, check, measure and hash 16 MiB of values.
func BenchmarkCommit(b *testing.B) {
	for _, name := range []string{codec.F32, codec.BF16, codec.Int8, codec.Int4, codec.Sign} {
		b.Run(name, func(b *testing.B) {
			p := testParams(4<<20, 64<<10)
			p.Codec = name
			values := make([]float32, p.Fragments[0])
			for i := range values {
				values[i] = float32(i%1000) - 500
			}
			own, err := Encode(p, 0, "ada", values, nil)
			if err != nil {
				b.Fatal(err)
			}
			b.SetBytes(int64(4 * len(values)))
			for b.Loop() {
				if _, err := Commit(p, 0, "ada", own.Bytes()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
