package bench

import (
	"context"
	"errors"
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
// percent. Only the first peer measures on so many, because that takes as long as some steps do.
const heldOut = 512

// warmSeed divides the warm start's data otherwise than any seed's.
const warmSeed = 1 << 40

// warm is the common start of all rows and seeds: a model that was trained data-parallel for a
// while, and the state of its optimizer.
type warm struct {
	corpus       *builtin.Corpus
	model, state string    // files
	values       []float32 // of the model; nil: there is no warm start yet
	optimizer    string    // inner
	loss         float64
}

// warmStart trains one, and leaves its files in c.Dir.
func warmStart(ctx context.Context, c ModesConfig) (w *warm, err error) {
	w = &warm{model: filepath.Join(c.Dir, "model.safetensors"), state: filepath.Join(c.Dir, "trainer.state")}
	w.optimizer = c.Model.Optimizer
	if w.corpus, err = builtin.OpenCorpus(ctx, builtin.CorpusConfig{Paths: c.Data}); err != nil {
		return nil, err
	}
	t, loss, err := w.train(ctx, c, warmSeed, 1, c.WarmSteps)
	if err != nil {
		return nil, err
	}
	f, err := os.Create(w.model)
	if err != nil {
		return nil, err
	}
	w.loss, w.values = loss, make([]float32, t.Layout().Elements())
	return w, errors.Join(t.Export(ctx, w.values),
		safetensors.Write(f, nil, t.Layout(), w.values), f.Close(),
		t.Save(ctx, w.state))
}

// train trains data-parallel from the warm start: as many steps as each peer does, each averaged
// over all peers' batches. In each round, from 1, the parts of the data are those that the peers of
// a run of that seed are dealt if all are there from the first slot on and none is late
// (docs/how-to/data.md). In modes that overlap, the same parts come in another order. The loss is
// that of held-out text. An inner optimizer that the warm start did not have begins without a
// state.
func (w *warm) train(ctx context.Context, c ModesConfig, seed, rounds, steps uint64,
) (t *builtin.Trainer, loss float64, err error) {
	together := c.Model.Config
	together.Batch *= c.Peers
	together.HeldOut, together.Threads = heldOut, min(runtime.NumCPU(), maxThreads)
	t, err = builtin.New(together, w.corpus)
	if err == nil && w.values != nil {
		err = t.Load(ctx, w.values)
	}
	if err == nil && w.values != nil && together.Optimizer == w.optimizer {
		err = t.Restore(ctx, w.state)
	}
	tasks := make([]p2pdiloco.Task, c.Peers)
	for part := uint64(0); err == nil && part < rounds*uint64(c.Peers); part += uint64(c.Peers) {
		for i := range tasks {
			tasks[i] = p2pdiloco.Task{Steps: int(steps), Seed: seed, Part: part + uint64(i), PartSteps: int(steps)}
		}
		_, err = t.TrainTogether(ctx, tasks)
	}
	if err == nil {
		loss, err = t.Evaluate(ctx)
	}
	return t, loss, err
}

// reference is data-parallel training. A ring all-reduce of float32 gradients at every
// step sends so much from each peer.
func (c ModesConfig) reference(ctx context.Context, row row, w *warm, seed uint64) (result, error) {
	ctx, cancel := context.WithTimeout(ctx, cellTime)
	defer cancel()
	c.Model = *row.model(c)
	_, loss, err := w.train(ctx, c, seed, c.Rounds, c.InnerSteps)
	n := uint64(c.Peers)
	sent := float64(2 * (n - 1) * 4 * c.Model.Parameters() * c.Rounds * c.InnerSteps / n)
	return result{figures: map[string]float64{"loss": loss, "payload-B": sent, "sent-B": sent}}, err
}

// prepare puts the optimizer's state where a peer with that data directory finds it, if that
// optimizer is the warm start's.
func (w *warm) prepare(dataDir, optimizer string) error {
	if optimizer != w.optimizer {
		return nil
	}
	state, err := os.ReadFile(w.state)
	return errors.Join(err, os.MkdirAll(dataDir, 0o700),
		os.WriteFile(filepath.Join(dataDir, "trainer.state"), state, 0o644))
}
