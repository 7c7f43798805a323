//go:build unix

package attach

import (
	"fmt"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco/bridge/attach/attachtest"
	"github.com/p2pdiloco/p2pdiloco/trainer"
)

// empty is a trainer whose requests move nothing: ranks that attach with a small model.
func empty(tb testing.TB, world int) *Trainer {
	tb.Helper()
	s, err := Listen(Config{DataDir: tb.TempDir()})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := s.Close(); err != nil {
			tb.Error(err)
		}
	})
	for i := range world {
		r := &attachtest.Rank{Trainer: &attachtest.Toy{}, Number: uint64(i), World: uint64(world), Set: "a"}
		go func() { _ = r.Run(tb.Context(), s.Path()) }()
	}
	tr, err := s.Trainer(tb.Context())
	if err != nil {
		tb.Fatal(err)
	}
	return tr
}

// BenchmarkRoundTrip is an empty round trip: a LOAD of no elements, from the node's call until all
// ranks have answered. ranks=1 is from the node to a rank and back.
func BenchmarkRoundTrip(b *testing.B) {
	for _, world := range []int{1, 2, 4} {
		b.Run(fmt.Sprintf("ranks=%d", world), func(b *testing.B) {
			tr := empty(b, world)
			for b.Loop() {
				if err := tr.LoadRange(b.Context(), 0, nil); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/1000/float64(b.N), "ms/trip")
		})
	}
}

// BenchmarkRound is a round without a model: LOAD, and a TRAIN of one step.
func BenchmarkRound(b *testing.B) {
	for _, world := range []int{1, 2, 4} {
		b.Run(fmt.Sprintf("ranks=%d", world), func(b *testing.B) {
			tr := empty(b, world)
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

// TestAnEmptyRoundTrip: a request that moves nothing is answered within a millisecond, if not each
// time on a busy machine, then the fastest of some. A loop that looked for messages now and then,
// or a wait on the way, would not come to that.
func TestAnEmptyRoundTrip(t *testing.T) {
	for _, world := range []int{1, 4} {
		tr, fastest := empty(t, world), time.Hour
		for range 300 {
			began := time.Now()
			if err := tr.LoadRange(t.Context(), 0, nil); err != nil {
				t.Fatal(err)
			}
			fastest = min(fastest, time.Since(began))
		}
		if t.Logf("%d ranks: %v", world, fastest); fastest > time.Millisecond {
			t.Errorf("%d ranks: the fastest of 300 took %v", world, fastest)
		}
	}
}
