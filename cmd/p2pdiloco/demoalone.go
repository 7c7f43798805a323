package main

import (
	"context"
	"runtime"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/bridge/builtin"
)

// maxThreads is where more cores stop helping so small a model.
const maxThreads = 8

// trainAlone trains the same model from the same start, by itself, for as many inner steps as each
// demoPeer of the swarm did. It returns the held-out loss before the first round and after each. An
// outer step of SGD with rate 1 on one contribution moves the anchor to just where the trainer is,
// so there is none to do here.
func trainAlone(ctx context.Context, cfg demoConfig, corpus *builtin.Corpus) ([]float64, error) {
	t, err := builtin.New(builtin.Config{Seed: cfg.Spec.Seed, Threads: min(runtime.NumCPU(), maxThreads)}, corpus)
	if err != nil {
		return nil, err
	}
	self := p2pdiloco.PeerID("alone")
	task := p2pdiloco.Task{
		Steps:   int(cfg.Spec.InnerSteps),
		Seed:    cfg.Spec.Seed,
		Self:    self,
		Members: []p2pdiloco.PeerID{self},
	}
	first, err := t.Evaluate(ctx)
	losses := []float64{first}
	for task.Slot = 1; task.Slot <= cfg.Spec.Rounds && err == nil; task.Slot++ {
		if _, err = t.Train(ctx, task); err != nil {
			break
		}
		var loss float64
		if loss, err = t.Evaluate(ctx); err == nil {
			losses = append(losses, loss)
		}
	}
	return losses, err
}
