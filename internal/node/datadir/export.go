package datadir

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"

	"github.com/p2pdiloco/p2pdiloco/internal/checkpoint"
	"github.com/p2pdiloco/p2pdiloco/internal/disk"
	"github.com/p2pdiloco/p2pdiloco/internal/node/replica"
	"github.com/p2pdiloco/p2pdiloco/internal/safetensors"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/store"
	"github.com/p2pdiloco/p2pdiloco/spec"
)

// ExportConfig says which state Export writes, and where.
type ExportConfig struct {
	DataDir string  // of a peer, which may be running
	Out     string  // the .safetensors file to make, in float32
	Slot    *uint64 // nil: the newest that is on disk
	// add the outer optimizer's vectors, under the names of the parameters with
	// "p2pdiloco.outer.N." in front
	Momentum bool
	Force    bool         // replace Out, and write a model that has NaN or infinity, too
	Logger   *slog.Logger // silent when nil
}

// Exported says what was written.
type Exported struct {
	Run       string    `json:"run"`
	RunID     slot.Root `json:"run_id"`
	Slot      uint64    `json:"slot"`
	Height    uint64    `json:"height"`
	StateRoot slot.Root `json:"state_root"`
	// a record names the state root. If not, the records that led to the state are certified, but
	// none follows yet
	Certified bool `json:"certified"`
	// slot of the checkpoint that it came from; outcomes led from there to Slot
	Restored uint64 `json:"checkpoint"`
	Elements uint64 `json:"parameters"`
	Tensors  int    `json:"tensors"`
}

// outerPrefix begins the names of the outer optimizer's tensors in a model file.
const outerPrefix = "p2pdiloco.outer."

// Export is p2pdiloco.Export.
func Export(ctx context.Context, cfg ExportConfig) (Exported, error) {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if err := cfg.check(); err != nil {
		return Exported{}, fmt.Errorf("export: %w", err)
	}
	// a running node may remove a checkpoint between its being found and read; a newer one is there
	// then
	const tries = 3
	for try := 1; ; try++ {
		of, a, err := openArchive(ctx, cfg)
		if err == nil {
			err = a.Advance(ctx)
		}
		switch {
		case err == nil:
			return cfg.write(ctx, of, a)
		case !errors.Is(err, checkpoint.ErrNotHeld) || try == tries:
			return Exported{}, fmt.Errorf("export: %w", err)
		}
	}
}

// check refuses what cannot be written before anything is read.
func (cfg ExportConfig) check() error {
	if _, err := os.Stat(cfg.Out); err == nil && !cfg.Force {
		return fmt.Errorf("%s exists: choose another name, or replace it with --force (ExportConfig.Force)", cfg.Out)
	}
	dir := filepath.Dir(filepath.Clean(cfg.Out))
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return fmt.Errorf("there is no folder %s for %s: make it, or choose another name", dir, cfg.Out)
	}
	return nil
}

// openArchive opens the states of a data directory without a node, for as long as ctx lasts.
func openArchive(ctx context.Context, cfg ExportConfig) (of spec.Spec, a *replica.Archive, err error) {
	dir := At(disk.OS, cfg.DataDir)
	known, err := dir.LoadSpec(spec.Spec{})
	switch {
	case err != nil:
		return of, nil, err
	case known == nil:
		return of, nil, fmt.Errorf("%s holds no run.spec: name the data directory of a peer that has found its run "+
			"(--data-dir)", cfg.DataDir)
	}
	of = *known
	saved, err := store.Read(cfg.DataDir, of.RunID())
	if errors.Is(err, fs.ErrNotExist) {
		return of, nil, fmt.Errorf("%s holds no ledger.log: without it nobody knows which states were agreed; "+
			"export from another peer's directory", cfg.DataDir)
	}
	if err != nil {
		return of, nil, err
	}
	states := dir.Path(StateFolder)
	if _, err := os.Stat(states); err != nil {
		return of, nil, fmt.Errorf("%s holds no checkpoint yet: a peer makes its first when it founds or joins the "+
			"run; try again then", dir.Root)
	}
	run := replica.RunOf(of, of.RunID())
	a, err = replica.OpenArchive(disk.FSUntil(ctx, disk.OS), run, states, saved, cfg.Slot, cfg.Logger)
	return of, a, err
}

// write writes the state of an archive to the file that cfg names.
func (cfg ExportConfig) write(ctx context.Context, of spec.Spec, a *replica.Archive) (done Exported, err error) {
	err = a.Read(func(at replica.Position, certified bool, vectors [][]float32) error {
		done = Exported{
			Run: of.Name, RunID: of.RunID(), Slot: at.Slot, Height: at.Height, StateRoot: at.Root,
			Certified: certified, Restored: a.Restored(), Elements: of.Layout.Elements(), Tensors: len(of.Layout),
		}
		if err := slot.NotFinite(of.Layout, vectors[0]); err != nil {
			if !cfg.Force {
				return fmt.Errorf("the model of slot %d is bad: %w; nothing is written, unless --force is given "+
					"(ExportConfig.Force)", at.Slot, err)
			}
			cfg.Logger.Warn("the model that is written is bad", "slot", at.Slot, "err", err)
		}
		out := []safetensors.Vector{{Layout: of.Layout, Values: vectors[0]}}
		for i, v := range vectors[1:] {
			if cfg.Momentum {
				out = append(out, safetensors.Vector{
					Prefix: fmt.Sprintf("%s%d.", outerPrefix, i),
					Layout: of.Layout, Values: v,
				})
			}
		}
		return disk.WriteWhole(ctx, cfg.Out, cfg.Force,
			func(w io.Writer) error { return safetensors.Write(w, done.metadata(), out...) })
	})
	if err != nil {
		return Exported{}, fmt.Errorf("export: %w", err)
	}
	return done, nil
}

// metadata is what the file says of itself. "format" is what Python's loaders look for: tensors lie
// as PyTorch's do.
func (e Exported) metadata() map[string]string {
	return map[string]string{
		"format": "pt", "run": e.Run, "run_id": e.RunID.String(), "slot": strconv.FormatUint(e.Slot, 10),
		"state_root": e.StateRoot.String(),
		"certified":  strconv.FormatBool(e.Certified),
	}
}
