package builtin

import (
	"fmt"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/trainer"
)

// BenchmarkStep is one inner step of the default model. One core: GOMAXPROCS=1 go test -bench Step
// ./bridge/builtin
func BenchmarkStep(b *testing.B) {
	for _, threads := range []int{1, 2} {
		b.Run(fmt.Sprintf("threads=%d", threads), func(b *testing.B) {
			cfg := Config{Threads: threads}
			t := newTestTrainer(b, cfg)
			data := newSampler(t.corpus, trainer.Task{Seed: 1, Slot: 1, Self: "a"}, t.cfg.Batch, t.cfg.Context)
			for b.Loop() {
				if _, _, err := t.step(data); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(cfg.FLOPsPerStep()*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
		})
	}
}

// BenchmarkEvaluate measures the default held-out batch.
func BenchmarkEvaluate(b *testing.B) {
	t := newTestTrainer(b, Config{})
	for b.Loop() {
		if _, err := t.Evaluate(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}
