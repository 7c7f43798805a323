package modes

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/bridge/builtin"
	"github.com/p2pdiloco/p2pdiloco/internal/safetensors"
)

// maxThreads is where more cores stop helping so small a model.
const maxThreads = 8

// heldOut is how many sequences losses are measured on: enough for differences of a tenth of a
// percent.
const heldOut = 512

// together is a trainer of all peers' batches as one.
func together(cfg Config, corpus *builtin.Corpus) (*builtin.Trainer, error) {
	c := cfg.Model.WithDefaults()
	c.Batch *= cfg.Peers
	c.HeldOut = heldOut
	c.Threads = min(runtime.NumCPU(), maxThreads)
	return builtin.New(c, corpus)
}

// tasks are the tasks of the peers of a run of that seed in a round, from 1: the data assignments
// if all peers are there from the first slot on and none is late (docs/data.md). In modes that
// overlap, the same parts come in another order.
func (c Config) tasks(seed, round uint64, steps int) []p2pdiloco.Task {
	members := make([]p2pdiloco.PeerID, c.Peers)
	for i := range members {
		members[i] = p2pdiloco.PeerID(fmt.Sprintf("reference-%03d", i))
	}
	tasks := make([]p2pdiloco.Task, c.Peers)
	for i, self := range members {
		tasks[i] = p2pdiloco.Task{
			Slot: round, Steps: steps, Seed: seed, Self: self, Members: members,
			Part: (round-1)*uint64(c.Peers) + uint64(i), PartSteps: steps,
		}
	}
	return tasks
}

// trainReference trains data-parallel from the warm start: as many steps as each peer does, each
// averaged over all peers' batches. It returns the held-out loss.
func trainReference(ctx context.Context, cfg Config, corpus *builtin.Corpus, w *warm, seed uint64) (float64, error) {
	t, err := together(cfg, corpus)
	if err != nil {
		return 0, err
	}
	if err := errors.Join(t.Load(ctx, w.values), t.Restore(ctx, w.state)); err != nil {
		return 0, err
	}
	for round := range cfg.Rounds {
		if _, err := t.TrainTogether(ctx, cfg.tasks(seed, round+1, int(cfg.InnerSteps))); err != nil {
			return 0, err
		}
	}
	return t.Evaluate(ctx)
}

// dataParallelBytes is what a ring all-reduce of float32 gradients at every step sends from each
// peer.
func (c Config) dataParallelBytes() float64 {
	n := uint64(c.Peers)
	return float64(2 * (n - 1) * 4 * c.Model.WithDefaults().Parameters() * c.Rounds * c.InnerSteps / n)
}

// warmSeed divides the warm start's data otherwise than any seed's.
const warmSeed = 1 << 40

// warm is the common start of all rows and seeds: a model that was trained data-parallel for a
// while, and the state of its optimizer.
type warm struct {
	model, state string // files
	values       []float32
	loss         float64
}

// warmStart trains one, and leaves its files in dir.
func warmStart(ctx context.Context, cfg Config, corpus *builtin.Corpus, dir string) (w *warm, err error) {
	t, err := together(cfg, corpus)
	if err != nil {
		return nil, err
	}
	if _, err := t.TrainTogether(ctx, cfg.tasks(warmSeed, 1, int(cfg.WarmSteps))); err != nil {
		return nil, err
	}
	w = &warm{
		model: filepath.Join(dir, "model.safetensors"), state: filepath.Join(dir, "trainer.state"),
		values: make([]float32, t.Layout().Elements()),
	}
	if w.loss, err = t.Evaluate(ctx); err != nil {
		return nil, err
	}
	f, err := os.Create(w.model)
	if err != nil {
		return nil, err
	}
	return w, errors.Join(t.Export(ctx, w.values),
		safetensors.Write(f, nil, safetensors.Vector{Layout: t.Layout(), Values: w.values}), f.Close(),
		t.Save(ctx, w.state))
}

// prepare puts the optimizer's state where a peer with that data directory finds it.
func (w *warm) prepare(dataDir string) error {
	state, err := os.ReadFile(w.state)
	return errors.Join(err, os.MkdirAll(dataDir, 0o700),
		os.WriteFile(filepath.Join(dataDir, filepath.Base(w.state)), state, 0o644))
}
