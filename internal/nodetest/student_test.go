package nodetest

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/bridge/builtin"
)

// school is what all runs share: the text, the model's sizes, and the start, which was trained
// data-parallel for a while.
type school struct {
	corpus *builtin.Corpus
	model  builtin.Config
	start  []float32
	state  string // file with the optimizer's state
	loss   float64
}

// openSchool opens the text and trains the start.
func openSchool(t *testing.T, cfg config) *school {
	t.Helper()
	var paths []string
	if cfg.data != "" {
		paths = []string{cfg.data}
	}
	corpus, err := builtin.OpenCorpus(t.Context(), builtin.CorpusConfig{Paths: paths})
	if err != nil {
		t.Fatal(err)
	}
	s := &school{corpus: corpus, model: cfg.model, state: filepath.Join(t.TempDir(), "trainer.state")}
	wide := cfg.model
	wide.Batch *= peers
	all, err := builtin.New(wide, corpus)
	if err != nil {
		t.Fatal(err)
	}
	s.start = make([]float32, all.Layout().Elements())
	first := make([]float32, len(s.start))
	if err := errors.Join(all.Init(t.Context(), first), all.Load(t.Context(), first)); err != nil {
		t.Fatal(err)
	}
	if _, err := all.TrainTogether(t.Context(), tasks(cfg.warm)); err != nil {
		t.Fatal(err)
	}
	s.loss, err = all.Evaluate(t.Context())
	if err := errors.Join(err, all.Export(t.Context(), s.start), all.Save(t.Context(), s.state)); err != nil {
		t.Fatal(err)
	}
	return s
}

// warmSeed divides the start's data otherwise than any run's seed.
const warmSeed = 1 << 40

// tasks are those of all peers for the start.
func tasks(steps int) (all []p2pdiloco.Task) {
	for i := range uint64(peers) {
		all = append(all, p2pdiloco.Task{Slot: 1, Steps: steps, Seed: warmSeed, Part: i, PartSteps: steps})
	}
	return all
}

// student is the built-in trainer in virtual time, from the common start.
type student struct {
	*builtin.Trainer
	start  []float32
	pace   time.Duration // of an inner step
	losses []float64     // of the anchor, by round; nil: not measured here
}

func (s *school) student(t *testing.T, pace time.Duration) *student {
	t.Helper()
	trainer, err := builtin.New(s.model, s.corpus)
	if err == nil {
		err = trainer.Restore(t.Context(), s.state)
	}
	if err != nil {
		t.Fatal(err)
	}
	return &student{Trainer: trainer, start: s.start, pace: pace}
}

// Init gives the common start.
func (s *student) Init(_ context.Context, dst []float32) error { copy(dst, s.start); return nil }

// Train takes no time but what the pace says.
func (s *student) Train(ctx context.Context, task p2pdiloco.Task) (p2pdiloco.Stats, error) {
	stats, err := s.Trainer.Train(ctx, task)
	stats.Elapsed = s.pace * time.Duration(stats.Steps)
	select {
	case <-ctx.Done():
		return stats, errors.Join(err, ctx.Err())
	case <-time.After(stats.Elapsed):
		return stats, err
	}
}

// Evaluate measures the anchor on the peer whose losses count; others need not know.
func (s *student) Evaluate(ctx context.Context) (float64, error) {
	if s.losses == nil {
		return 0, errors.ErrUnsupported
	}
	loss, err := s.Trainer.Evaluate(ctx)
	if errors.Is(err, builtin.ErrDiverged) {
		loss, err = infinite, nil
	}
	s.losses = append(s.losses, loss)
	return loss, err
}

// infinite stands for the loss of a model that is spoilt.
const infinite = 1e9
