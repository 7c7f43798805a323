package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/bridge/builtin"
	"github.com/p2pdiloco/p2pdiloco/bridge/plugin"
	"github.com/p2pdiloco/p2pdiloco/bridge/settings"
	"github.com/p2pdiloco/p2pdiloco/internal/sources"
)

// newTrainer makes what --trainer names, which is not none, for a peer whose data directory is cfg.DataDir. A trainer with a method Close
// is closed after the peer.
func (p *participant) newTrainer(ctx context.Context, cfg p2pdiloco.Config) (p2pdiloco.Trainer, error) {
	if p.settings.Trainer.Library() {
		t, err := p.openLibrary(ctx, cfg)
		var f *plugin.Fault
		switch {
		case err == nil:
			return t, nil
		case errors.Is(err, fs.ErrNotExist) && errors.As(err, &f):
			return nil, usageError(&sources.Fault{Flag: "trainer", Value: string(p.settings.Trainer), Why: f.Problem})
		}
		return nil, fmt.Errorf("trainer: %w", err)
	}
	return newGPT(ctx, p.settings, cfg.Spec.Settled().Seed)
}

// openLibrary loads a shared library. What it keeps lies beside what the peer keeps, and is found again when that is.
func (p *participant) openLibrary(ctx context.Context, cfg p2pdiloco.Config) (*plugin.Trainer, error) {
	text, err := readText("trainer-config", p.settings.TrainerConfig)
	if err != nil {
		return nil, err
	}
	return plugin.Open(ctx, plugin.Config{
		Path: string(p.settings.Trainer), Config: text, Seed: cfg.Spec.Settled().Seed, DataDir: filepath.Join(cfg.DataDir, "trainer"),
		Timeout: p.settings.TrainerTimeout, Stderr: p.stderr, Logger: p.settings.LogLevel.Logger(p.stderr),
	})
}

// readText is the text of the file that a flag names; empty without one.
func readText(flag, path string) (string, error) {
	if path == "" {
		return "", nil
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return "", usageError(&sources.Fault{Flag: flag, Value: path, Why: err.Error()})
	}
	return string(b), nil
}

// newGPT is the built-in trainer. The seed makes the initial model, should this peer found the run; what divides the data is the
// run's own, which comes with each task.
func newGPT(ctx context.Context, s *settings.Settings, seed uint64) (p2pdiloco.Trainer, error) {
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
