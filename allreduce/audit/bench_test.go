package audit

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/allreduce/codec"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

func benchWorld(b *testing.B, name string, n int) *world {
	p := testParams(1<<20, 65_536)
	p.Codec = name
	return newWorld(b, p, noise(rand.New(rand.NewPCG(1, 1)), 1<<20, n), 0, 16)
}

// What an auditor does with a sample of 16 KiB of 8 contributors: verify the openings, decode,
// aggregate, encode.
func BenchmarkRecompute(b *testing.B) {
	for _, name := range []string{codec.F32, codec.Int8, codec.Int4, codec.Sign} {
		w := benchWorld(b, name, 8)
		sample := w.sample(17).Range
		openings := w.openings(b, sample)
		b.Run(fmt.Sprintf("%s, %d elements", name, sample.Len()), func(b *testing.B) {
			b.SetBytes(int64(len(w.bytes(sample))))
			for b.Loop() {
				if _, err := w.Recompute(sample, openings); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// What a contributor does to show a sample of a frame of 256 KiB.
func BenchmarkOpenContribution(b *testing.B) {
	w := benchWorld(b, codec.F32, 1)
	sample := w.sample(17).Range
	for b.Loop() {
		if _, err := OpenContribution(w.Params, 0, w.own[0], sample); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkVerifyProof(b *testing.B) {
	for _, n := range []int{8, 64} {
		w := benchWorld(b, codec.F32, n)
		w.outcome[5] ^= 1
		w.sign()
		block := slot.Range{End: 256}
		proof, err := w.ProveOutcome(block, w.openings(b, block), w.opened(b, block))
		if err != nil {
			b.Fatal(err)
		}
		bytes := proof.Append(nil)
		b.Run(fmt.Sprintf("%d contributors, %d bytes", n, len(bytes)), func(b *testing.B) {
			for b.Loop() {
				p, err := ReadProof(bytes)
				if err != nil {
					b.Fatal(err)
				}
				if _, err := p.Verify(w.Params); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
