package main

import (
	"context"
	"fmt"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/bridge/builtin"
	"github.com/p2pdiloco/p2pdiloco/bridge/settings"
)

// newTrainer makes what --trainer names, which is not none, for a peer whose data directory is cfg.DataDir. A trainer with a method Close
// is closed after the peer.
func (p *participant) newTrainer(ctx context.Context, cfg p2pdiloco.Config) (p2pdiloco.Trainer, error) {
	if p.settings.Trainer.Library() {
		// The one place where shared libraries are opened, from settings TrainerConfig (a path) and TrainerTimeout.
		return nil, usageError(fmt.Errorf("%s: this version cannot load shared libraries: allowed: %s, %s",
			p.settings.Given("trainer"), settings.TrainerGPT, settings.TrainerNone))
	}
	return newGPT(ctx, p.settings, cfg.Spec.Settled().Seed)
}

// newGPT is the built-in trainer. The seed makes the initial model, should this peer found the run; what divides the data is the
// run's own, which comes with each task.
func newGPT(ctx context.Context, s *settings.Settings, seed uint64) (p2pdiloco.Trainer, error) {
	corpus, err := builtin.OpenCorpus(ctx, builtin.CorpusConfig{Paths: s.Data})
	if err != nil {
		return nil, err
	}
	cfg := s.Model.Config
	cfg.Seed = seed
	t, err := builtin.New(cfg, corpus)
	if err != nil || s.Pause == 0 && s.Gate == "" {
		return t, err
	}
	return &paced{t, s.Pause, s.Gate}, nil
}
