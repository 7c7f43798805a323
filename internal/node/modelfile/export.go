// Package modelfile reads and writes models as .safetensors files: the export of a peer's state,
// and the file with the initial parameters of a run.
package modelfile

import (
	"cmp"
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
	"github.com/p2pdiloco/p2pdiloco/internal/hffolder"
	"github.com/p2pdiloco/p2pdiloco/internal/node/datadir"
	"github.com/p2pdiloco/p2pdiloco/internal/node/replica"
	"github.com/p2pdiloco/p2pdiloco/internal/node/rules"
	"github.com/p2pdiloco/p2pdiloco/internal/safetensors"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/store"
	"github.com/p2pdiloco/p2pdiloco/spec"
)

// ExportConfig says which state Export writes, and where.
type ExportConfig struct {
	DataDir string  // of a peer, which may be running
	Out     string  // the .safetensors file to make, in float32
	Folder  string  // instead of Out: the Hugging Face folder to make
	Slot    *uint64 // nil: the newest that is on disk
	// of Folder: a folder with the model's config.json, which is carried over with the tokenizer
	Like string
	// of Folder: float32, bfloat16 or float16; "" is that of each tensor in Like
	DType string
	// of Folder: how large a file of weights becomes, in bytes; 0 is hffolder.ShardBytes
	ShardBytes uint64
	// add the outer optimizer's vectors, under the names of the parameters with
	// "p2pdiloco.outer.N." in front
	Momentum bool
	Force    bool         // replace Out
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
	switch _, err := os.Stat(cfg.Out); {
	case cfg.Folder != "" && cfg.Out != "":
		return fmt.Errorf("both a file (%s) and a folder (%s) are named: export twice", cfg.Out, cfg.Folder)
	case cfg.Folder != "" && (cfg.Momentum || cfg.Force):
		return errors.New("a Hugging Face folder holds no momentum (--with-momentum), and an old one is never " +
			"replaced (--force): choose another name")
	case cfg.Folder == "" && (cfg.Like != "" || cfg.DType != ""):
		return errors.New("--like and --dtype are for a Hugging Face folder: name one with --hf DIR")
	case cfg.Folder != "" && cfg.Like == "":
		return errors.New("nothing says what model this is: name the folder with its config.json, with --like DIR " +
			"(ExportConfig.Like)")
	case cfg.Folder == "" && err == nil && !cfg.Force:
		return fmt.Errorf("%s exists: choose another name, or replace it with --force (ExportConfig.Force)", cfg.Out)
	}
	return within(cmp.Or(cfg.Folder, cfg.Out))
}

// within refuses a path whose folder is not there.
func within(path string) error {
	dir := filepath.Dir(filepath.Clean(path))
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return fmt.Errorf("there is no folder %s for %s: make it, or choose another name", dir, path)
	}
	return nil
}

// openArchive opens the states of a data directory without a node, for as long as ctx lasts.
func openArchive(ctx context.Context, cfg ExportConfig) (of spec.Spec, a *replica.Archive, err error) {
	dir := datadir.At(disk.OS, cfg.DataDir)
	known, err := dir.LoadSpec(spec.Spec{})
	switch {
	case err != nil:
		return of, nil, err
	case known == nil:
		return of, nil, fmt.Errorf("%s holds no run.spec: name the data directory of a peer that has found its run "+
			"(--data-dir)", cfg.DataDir)
	}
	of = *known
	if cfg.Folder != "" { // it takes minutes to get the state
		if err := cfg.output(of).Check(cfg.Folder); err != nil {
			return of, nil, err
		}
	}
	saved, err := store.Read(cfg.DataDir, of.RunID())
	if errors.Is(err, fs.ErrNotExist) {
		return of, nil, fmt.Errorf("%s holds no ledger.log: without it nobody knows which states were agreed; "+
			"export from another peer's directory", cfg.DataDir)
	}
	if err != nil {
		return of, nil, err
	}
	states := dir.Path(datadir.StateFolder)
	if _, err := os.Stat(states); err != nil {
		return of, nil, fmt.Errorf("%s holds no checkpoint yet: a peer makes its first when it founds or joins the "+
			"run; try again then", dir.Root)
	}
	run := rules.Replica(of, of.RunID())
	a, err = replica.OpenArchive(disk.FSUntil(ctx, disk.OS), run, states, saved, cfg.Slot, cfg.Logger)
	return of, a, err
}

// output is the folder to write, without what stands in it.
func (cfg ExportConfig) output(of spec.Spec) hffolder.Output {
	return hffolder.Output{Layout: of.Layout, Like: cfg.Like, DType: cfg.DType, ShardBytes: cfg.ShardBytes}
}

// write writes the state of an archive to the file or folder that cfg names.
func (cfg ExportConfig) write(ctx context.Context, of spec.Spec, a *replica.Archive) (done Exported, err error) {
	err = a.Read(func(at replica.Position, certified bool, vectors [][]float32) error {
		done = Exported{
			Run: of.Name, RunID: of.RunID(), Slot: at.Slot, Height: at.Height, StateRoot: at.Root,
			Certified: certified, Restored: a.Restored(), Elements: of.Layout.Elements(), Tensors: len(of.Layout),
		}
		if cfg.Folder != "" {
			o := cfg.output(of)
			o.Values, o.Metadata = vectors[0], done.metadata()
			return hffolder.Write(ctx, cfg.Folder, o)
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
