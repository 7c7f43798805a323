package builtin

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/p2pdiloco/p2pdiloco/trainer"
)

// ErrDiverged is wrapped when a loss is no longer a finite number.
var ErrDiverged = errors.New("training diverged")

// Trainer trains the built-in model. It implements trainer.Trainer, trainer.Evaluator,
// trainer.Sampler, trainer.Saver and trainer.RangeTrainer and, like them, is for one goroutine at a
// time.
type Trainer struct {
	cfg     Config
	corpus  *Corpus
	layout  trainer.Layout
	model   *model
	opt     *adamW
	heldOut batch
	drawn   batch // the training batch, used again by every step

	stepTime time.Duration // the least duration of a step
}

var _ interface {
	trainer.Trainer
	trainer.Evaluator
	trainer.Sampler
	trainer.Saver
	trainer.RangeTrainer
} = (*Trainer)(nil)

// New makes a trainer whose live parameters are the initial ones. It refuses an invalid
// configuration, and wraps ErrNoData when the corpus is too small for the context.
func New(cfg Config, corpus *Corpus) (*Trainer, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("builtin trainer: %w", err)
	}
	cfg = cfg.WithDefaults()
	if err := corpus.check(cfg.Context + 1); err != nil {
		return nil, fmt.Errorf("builtin trainer: %w", err)
	}
	s := cfg.shape()
	t := &Trainer{
		cfg: cfg, corpus: corpus, layout: s.layout(),
		model:   newModel(s, cfg.Batch, cores(cfg.Threads)),
		heldOut: corpus.heldOutBatch(cfg.HeldOut, cfg.Context),
	}
	var m *muon
	if cfg.Optimizer == Muon {
		m = newMuon(s, cores(cfg.Threads))
	}
	t.opt = newAdamW(cfg, t.layout, m)
	t.model.initialize(cfg.Seed)
	return t, nil
}

// Layout lists the model's tensors in flat order.
func (t *Trainer) Layout() trainer.Layout { return t.layout }

// Init writes the initial parameters, which follow from the sizes and Config.Seed, into dst. The
// live parameters stay.
func (t *Trainer) Init(_ context.Context, dst []float32) error {
	if err := t.fits(dst); err != nil {
		return err
	}
	p := newParams(t.model.shape)
	p.initialize(t.cfg.Seed)
	copy(dst, p.flat)
	return nil
}

// Load replaces the live parameters. The optimizer's state stays.
func (t *Trainer) Load(_ context.Context, anchor []float32) error {
	if err := t.fits(anchor); err != nil {
		return err
	}
	copy(t.model.flat, anchor)
	return nil
}

// Export writes the live parameters into dst.
func (t *Trainer) Export(_ context.Context, dst []float32) error {
	if err := t.fits(dst); err != nil {
		return err
	}
	copy(dst, t.model.flat)
	return nil
}

// LoadRange replaces the live parameters from element begin on.
func (t *Trainer) LoadRange(_ context.Context, begin int, src []float32) error {
	live, err := t.piece(begin, len(src))
	copy(live, src)
	return err
}

// ExportRange writes the live parameters from element begin on into dst.
func (t *Trainer) ExportRange(_ context.Context, begin int, dst []float32) error {
	live, err := t.piece(begin, len(dst))
	copy(dst, live)
	return err
}

// piece is n of the live parameters from element begin on.
func (t *Trainer) piece(begin, n int) ([]float32, error) {
	if d := len(t.model.flat); begin < 0 || begin > d || n > d-begin {
		return nil, fmt.Errorf("builtin trainer: %d elements from %d on of a model of %d", n, begin, d)
	}
	return t.model.flat[begin : begin+n], nil
}

func (t *Trainer) fits(v []float32) error {
	if len(v) != len(t.model.flat) {
		return fmt.Errorf("builtin trainer: a vector of %d elements for a model of %d: give all peers the same model "+
			"sizes",
			len(v), len(t.model.flat))
	}
	return nil
}

// Train does task.Steps steps on the task's part of the data. When ctx ends it returns ctx's error
// with the statistics of the steps done. It wraps ErrDiverged, without having stepped, when the
// loss is not finite.
func (t *Trainer) Train(ctx context.Context, task trainer.Task) (trainer.Stats, error) {
	return t.TrainTogether(ctx, []trainer.Task{task})
}

// TrainTogether does the same inner steps of several peers' tasks as one trainer: at each step
// every task draws its share of the batch, and there is one optimizer step by the mean of their
// gradients. This is synchronous data-parallel training on the peers' data, with which DiLoCo is
// compared. Config.Batch counts the sequences of all tasks together, and is a multiple of their
// number. The tasks must ask for equally many steps. It ends early as Train does.
func (t *Trainer) TrainTogether(ctx context.Context, tasks []trainer.Task) (stats trainer.Stats, err error) {
	data, err := t.samplers(tasks)
	if err != nil {
		return stats, err
	}
	start, sum, norms := time.Now(), 0.0, 0.0
	for stats.Steps < tasks[0].Steps && err == nil {
		if err = ctx.Err(); err != nil {
			break
		}
		var loss, norm float64
		if loss, norm, err = t.step(data...); err == nil {
			sum, norms = sum+loss, norms+norm
			stats.Steps++
			tasks[0].Report(stats.Steps)
			err = t.await(ctx, start, stats.Steps)
		}
	}
	stats.Samples = uint64(stats.Steps) * uint64(t.cfg.Batch)
	stats.Tokens = stats.Samples * uint64(t.cfg.Context)
	stats.Loss, stats.GradNorm = sum/float64(max(1, stats.Steps)), norms/float64(max(1, stats.Steps))
	stats.Elapsed = time.Since(start)
	return stats, err
}

// samplers draw each task's share of a batch.
func (t *Trainer) samplers(tasks []trainer.Task) (data []*sampler, err error) {
	if len(tasks) == 0 || t.cfg.Batch%len(tasks) != 0 {
		return nil, fmt.Errorf("builtin trainer: a batch of %d sequences for %d tasks: give a multiple", t.cfg.Batch,
			len(tasks))
	}
	for _, task := range tasks {
		if task.Steps != tasks[0].Steps {
			return nil, fmt.Errorf("builtin trainer: tasks of %d and of %d steps cannot be trained together",
				tasks[0].Steps, task.Steps)
		}
		data = append(data, newSampler(t.corpus, task, t.cfg.Batch/len(tasks), t.cfg.Context))
	}
	return data, nil
}

// step is one inner step. It returns the loss before it, and the norm of the whole gradient before
// it was clipped.
func (t *Trainer) step(data ...*sampler) (loss, norm float64, err error) {
	t.drawn.inputs, t.drawn.targets = t.drawn.inputs[:0], t.drawn.targets[:0]
	for _, d := range data {
		d.draw(&t.drawn)
	}
	loss = t.model.forward(t.drawn)
	if math.IsNaN(loss) || math.IsInf(loss, 0) {
		return 0, 0, fmt.Errorf("%w: the loss at inner step %d is %v: take a lower learning rate", ErrDiverged,
			t.opt.steps+1, loss)
	}
	t.model.backward(t.drawn)
	return loss, t.opt.step(t.model.flat, t.model.grads.flat), nil
}

// Evaluate is the mean loss of the live parameters over the held-out sequences, in nats per byte.
// ln 256 = 5.55 is what guessing gives. It wraps ErrDiverged when that is not finite.
func (t *Trainer) Evaluate(ctx context.Context) (float64, error) {
	sum, all := 0.0, len(t.heldOut.inputs)
	for at := 0; at < all; {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		end := min(at+t.cfg.Batch*t.cfg.Context, all)
		sum += t.model.forward(batch{t.heldOut.inputs[at:end], t.heldOut.targets[at:end]}) * float64(end-at)
		at = end
	}
	if loss := sum / float64(all); !math.IsNaN(loss) && !math.IsInf(loss, 0) {
		return loss, nil
	}
	return 0, fmt.Errorf("%w: the held-out loss is not finite", ErrDiverged)
}

// Pace makes each inner step from now on last at least d; 0 means as long as it takes. If several
// peers share a machine's cores, steps of one length, with time to spare, make it possible to
// measure the wait for other peers apart from the wait for a core. The result of training stays the
// same.
func (t *Trainer) Pace(d time.Duration) { t.stepTime = d }

// await waits until so many steps of a Train that began at that time may be done, or returns the
// error of ctx. Late steps are made up for.
func (t *Trainer) await(ctx context.Context, began time.Time, steps int) error {
	rest := t.stepTime*time.Duration(steps) - time.Since(began)
	if t.stepTime <= 0 || rest <= 0 {
		return nil
	}
	select {
	case <-time.After(rest):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
