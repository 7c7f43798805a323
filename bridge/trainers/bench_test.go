//go:build cgo

package trainers_test

import (
	"testing"

	"github.com/p2pdiloco/p2pdiloco/bridge/builtin"
	"github.com/p2pdiloco/p2pdiloco/trainer"
)

// BenchmarkStep is one inner step of the default model on one core, with the C trainer and with the
// built-in one:
//
//	GOMAXPROCS=1 go test -run xxx -bench Step ./bridge/trainers
func BenchmarkStep(b *testing.B) {
	corpus := builtin.CorpusConfig{Paths: []string{write(b, map[string]string{"text": prose(1, 1<<16)})}}
	p := pair{corpus: corpus}
	ours, theirs := p.start(b)
	for name, tr := range map[string]trainer.Trainer{"builtin": ours, "c": theirs} {
		b.Run(name, func(b *testing.B) {
			task := trainer.Task{Slot: 1, Steps: b.N, Seed: 1, Self: members(1)[0], Members: members(1)}
			if _, err := tr.Train(b.Context(), task); err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "steps/s")
			b.ReportMetric(p.cfg.FLOPsPerStep()*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
		})
	}
}
