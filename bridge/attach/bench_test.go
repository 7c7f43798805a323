//go:build unix

package attach

import (
	"fmt"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/bridge/attach/attachtest"
	"github.com/p2pdiloco/p2pdiloco/trainer"
)

// BenchmarkRoundTrip is a round without a model: LOAD, and a TRAIN of one step.
func BenchmarkRoundTrip(b *testing.B) {
	for _, world := range []int{1, 2, 4} {
		b.Run(fmt.Sprintf("ranks=%d", world), func(b *testing.B) {
			s, err := Listen(Config{DataDir: b.TempDir()})
			if err != nil {
				b.Fatal(err)
			}
			defer s.Close()
			for i := range world {
				r := &attachtest.Rank{Trainer: &attachtest.Toy{}, Number: uint64(i), World: uint64(world), Set: "a"}
				go func() { _ = r.Run(b.Context(), s.Path()) }()
			}
			tr, err := s.Trainer(b.Context())
			if err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				if err := tr.Load(b.Context(), tr.start); err != nil {
					b.Fatal(err)
				}
				if _, err := tr.Train(b.Context(), trainer.Task{Steps: 1}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
