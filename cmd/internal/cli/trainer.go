package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/bridge/builtin"
	"github.com/p2pdiloco/p2pdiloco/bridge/cgo"
	"github.com/p2pdiloco/p2pdiloco/bridge/peer"
	"github.com/p2pdiloco/p2pdiloco/internal/sources"
)

// newTrainer makes the trainer that --trainer names, which is not none, for a peer whose data
// directory is cfg.DataDir. A trainer with a method Close is closed after the peer.
func (p *participant) newTrainer(ctx context.Context, cfg p2pdiloco.Config) (p2pdiloco.Trainer, error) {
	if p.settings.Trainer == peer.TrainerAttach {
		return p.attached.open(ctx, cfg)
	}
	if p.settings.Trainer.Library() {
		t, err := p.openLibrary(ctx, cfg)
		f, faulty := errors.AsType[*cgo.Fault](err)
		switch {
		case err == nil:
			return t, nil
		case faulty && errors.Is(err, fs.ErrNotExist):
			return nil, UsageError(sources.Faultf("trainer", p.settings.Trainer, "%s", f.Problem))
		case errors.Is(err, cgo.ErrNoCgo):
			return nil, UsageError(err)
		}
		return nil, fmt.Errorf("trainer: %w", err)
	}
	return newGPT(ctx, p.settings, cfg.Spec.Settled().Seed)
}

// openLibrary loads a shared library. The library's files lie in the peer's data directory, and are
// there again whenever that is used again.
func (p *participant) openLibrary(ctx context.Context, cfg p2pdiloco.Config) (p2pdiloco.Trainer, error) {
	text, err := ReadText("trainer-config", p.settings.TrainerConfig)
	if err != nil {
		return nil, err
	}
	return cgo.Open(ctx, cgo.Config{
		Path: string(p.settings.Trainer), Config: text, Seed: cfg.Spec.Settled().Seed,
		DataDir: filepath.Join(cfg.DataDir, "trainer"),
		Timeout: p.settings.TrainerTimeout, Logger: p.settings.LogLevel.Logger(p.errs),
	})
}

// newGPT is the built-in trainer. The seed makes the initial model if this peer founds the run;
// each task has the run's own seed, which divides the data.
func newGPT(ctx context.Context, s *peer.Settings, seed uint64) (p2pdiloco.Trainer, error) {
	corpus, err := builtin.OpenCorpus(ctx, builtin.CorpusConfig{Paths: s.Data})
	if err != nil {
		return nil, err
	}
	cfg := s.Model.Config
	cfg.Seed, cfg.HeldOut = seed, s.HeldOut
	t, err := builtin.New(cfg, corpus)
	if err != nil {
		return nil, err
	}
	t.Pace(s.StepTime)
	if s.Pause == 0 && s.Gate == "" {
		return t, nil
	}
	return &paced{t, s.Pause, s.Gate}, nil
}
