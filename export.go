package p2pdiloco

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

	"github.com/p2pdiloco/p2pdiloco/allreduce/codec"
	"github.com/p2pdiloco/p2pdiloco/internal/checkpoint"
	"github.com/p2pdiloco/p2pdiloco/internal/disk"
	"github.com/p2pdiloco/p2pdiloco/internal/safetensors"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership"
)

// ExportConfig says which state Export writes, and where.
type ExportConfig struct {
	DataDir  string       // of a peer, which may be running
	Out      string       // the .safetensors file to make
	Slot     *uint64      // nil: the newest that is on disk
	Momentum bool         // add the outer optimizer's vectors, under the names of the parameters with "p2pdiloco.outer.N." in front
	Force    bool         // replace Out
	Logger   *slog.Logger // silent when nil
}

// Exported says what was written.
type Exported struct {
	Run       string `json:"run"`
	RunID     Root   `json:"run_id"`
	Slot      uint64 `json:"slot"`
	Height    uint64 `json:"height"`
	StateRoot Root   `json:"state_root"`
	Certified bool   `json:"certified"`  // a record names the state root. If not, the records that led to the state are certified, but none follows yet
	Restored  uint64 `json:"checkpoint"` // slot of the checkpoint that it came from; outcomes led from there to Slot
	Elements  uint64 `json:"parameters"`
	Tensors   int    `json:"tensors"`
}

// outerPrefix begins the names of the outer optimizer's tensors in a model file.
const outerPrefix = "p2pdiloco.outer."

// Export writes a peer's model to a .safetensors file: the newest checkpoint that a record certifies, brought up to the wanted
// slot by the outcomes that follow it on disk, each state held against its certified root. It changes nothing in the data
// directory.
func Export(ctx context.Context, cfg ExportConfig) (Exported, error) {
	if _, err := os.Stat(cfg.Out); err == nil && !cfg.Force {
		return Exported{}, fmt.Errorf("export: %s exists: choose another name, or replace it with --force (ExportConfig.Force)", cfg.Out)
	}
	const tries = 3 // a running node may remove a checkpoint between its being found and read; a newer one is there then
	for try := 1; ; try++ {
		a, err := openArchive(cfg)
		if err == nil {
			err = a.advance(ctx)
		}
		switch {
		case err == nil:
			return a.write(cfg)
		case !errors.Is(err, checkpoint.ErrNotHeld) || try == tries:
			return Exported{}, fmt.Errorf("export: %w", err)
		}
	}
}

// archive is the state in a data directory, without a node.
type archive struct {
	wanted   *uint64
	spec     Spec
	chain    []membership.Commit // of height 1, 2, ...
	worker   *worker             // of which only what reads and steps is there
	restored uint64              // slot of the checkpoint
}

// openArchive loads the newest certified checkpoint up to the wanted slot.
func openArchive(cfg ExportConfig) (*archive, error) {
	dir := dataDir{fs: disk.OS, root: cfg.DataDir}
	a := &archive{wanted: cfg.Slot}
	spec, err := dir.loadSpec(Spec{})
	switch {
	case err != nil:
		return nil, err
	case spec == nil:
		return nil, fmt.Errorf("%s holds no run.spec: name the data directory of a peer that has found its run (--data-dir)", cfg.DataDir)
	}
	a.spec = *spec
	saved, err := membership.ReadStore(cfg.DataDir, spec.RunID())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s holds no ledger.log: without it nobody knows which states were agreed; export from another peer's directory", cfg.DataDir)
	}
	if err != nil {
		return nil, err
	}
	a.chain = saved.Chain
	if err := a.openWorker(dir, cfg.Logger); err != nil {
		return nil, err
	}
	return a, a.restore()
}

func (a *archive) openWorker(dir dataDir, log *slog.Logger) error {
	if _, err := os.Stat(dir.path("state")); err != nil {
		return fmt.Errorf("%s holds no checkpoint yet: a peer makes its first when it founds or joins the run; try again then", dir.root)
	}
	state, err := newState(a.spec)
	if err != nil {
		return err
	}
	c, err := codec.New(a.spec.Codec)
	if err != nil {
		return err
	}
	c = codec.Outcome(c)
	w := &worker{spec: a.spec, outcome: c, frameBytes: c.EncodedSize(int(a.spec.Frame)), state: state}
	shape := checkpoint.Shape{Elements: a.spec.Layout.Elements(), Optimizer: len(state.outer.State())}
	w.store, err = checkpoint.Open(dir.path("state"), checkpoint.Config{Shape: shape, FrameBytes: w.frameBytes, Logger: log, ReadOnly: true})
	a.worker = w
	return err
}

// record is the certified record at a height.
func (a *archive) record(height uint64) (membership.Commit, bool) {
	if height == 0 || height > uint64(len(a.chain)) {
		return membership.Commit{}, false
	}
	return a.chain[height-1], true
}

// certified is the root of the state after height, if a record names it.
func (a *archive) certified(height uint64) (Root, bool) { return certifiedState(height, a.record) }

func (a *archive) restore() error {
	oldest, found := uint64(0), false
	err := a.worker.state.replace(func(vectors [][]float32) (position, error) {
		c, err := a.worker.store.LoadNewest(func(c checkpoint.Checkpoint) bool {
			root, ok := a.certified(c.Height)
			if !ok || root != c.Root {
				return false
			}
			oldest, found = c.Slot, true
			return a.wanted == nil || c.Slot <= *a.wanted
		}, vectors...)
		a.restored = c.Slot
		return position{height: c.Height, slot: c.Slot, root: c.Root}, err
	})
	if !errors.Is(err, checkpoint.ErrNotHeld) {
		return err
	}
	if found && a.wanted != nil && *a.wanted < oldest {
		return fmt.Errorf("slot %d is no longer on disk: the oldest checkpoint is of slot %d", *a.wanted, oldest)
	}
	return fmt.Errorf("no usable checkpoint that a record certifies: if the peer has just joined, try again after the next slot (%w)", err)
}

// advance applies the records above the checkpoint, up to the wanted slot or as far as outcomes are there.
func (a *archive) advance(ctx context.Context) error {
	s := a.worker.state
	for at, _ := s.position(); at.height < uint64(len(a.chain)); at, _ = s.position() {
		r := a.chain[at.height].Record
		if err := ctx.Err(); err != nil {
			return err
		}
		if a.wanted != nil && r.Kind == slot.Step && r.Slot > *a.wanted {
			return nil
		}
		err := a.apply(r)
		if a.wanted == nil && errors.Is(err, checkpoint.ErrNotHeld) {
			return nil // the newest that is on disk
		}
		if err != nil {
			return err
		}
	}
	if at, _ := s.position(); a.wanted != nil && at.slot != *a.wanted {
		return fmt.Errorf("slot %d is not there yet: the newest is %d", *a.wanted, at.slot)
	}
	return nil
}

// apply is one record's step, held against the root that the next record certifies.
func (a *archive) apply(r slot.Record) error {
	if r.Kind != slot.Step {
		return a.worker.state.pass(r.Height, r.Hash())
	}
	at, err := a.worker.state.step(r.Height, r.Hash(), r.Slot, func(grad []float32) error { return a.worker.decode(r, grad) })
	if err != nil {
		return err
	}
	if root, ok := a.certified(r.Height); ok && root != at.root {
		return fmt.Errorf("the state after slot %d comes out as %s, certified is %s: this peer's disk or processor is at fault; export from another peer",
			r.Slot, at.root, root)
	}
	return nil
}

func (a *archive) write(cfg ExportConfig) (done Exported, err error) {
	err = a.worker.state.read(func(at position, vectors [][]float32) error {
		root, certified := a.certified(at.height)
		done = Exported{
			Run: a.spec.Name, RunID: a.spec.RunID(), Slot: at.slot, Height: at.height, StateRoot: at.root, Certified: certified && root == at.root,
			Restored: a.restored, Elements: a.spec.Layout.Elements(), Tensors: len(a.spec.Layout),
		}
		out := []safetensors.Vector{{Layout: a.spec.Layout, Values: vectors[0]}}
		for i, v := range vectors[1:] {
			if cfg.Momentum {
				out = append(out, safetensors.Vector{Prefix: fmt.Sprintf("%s%d.", outerPrefix, i), Layout: a.spec.Layout, Values: v})
			}
		}
		return writeWhole(cfg.Out, cfg.Force, func(w io.Writer) error { return safetensors.Write(w, done.metadata(), out...) })
	})
	if err != nil {
		return Exported{}, fmt.Errorf("export: %w", err)
	}
	return done, nil
}

// metadata is what the file says of itself. "format" is what Python's loaders look for: tensors lie as PyTorch's do.
func (e Exported) metadata() map[string]string {
	return map[string]string{
		"format": "pt", "run": e.Run, "run_id": e.RunID.String(), "slot": strconv.FormatUint(e.Slot, 10), "state_root": e.StateRoot.String(),
		"certified": strconv.FormatBool(e.Certified),
	}
}

// writeWhole makes a file that is there whole and durable, or not at all.
func writeWhole(path string, replace bool, write func(io.Writer) error) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) //nolint:errcheck // gone already if it was renamed
	err = write(f)
	if err = errors.Join(err, f.Chmod(0o644), f.Sync(), f.Close()); err != nil {
		return err
	}
	place := os.Link // fails where there is a file
	if replace {
		place = os.Rename
	}
	if err := place(f.Name(), path); err != nil {
		return err
	}
	return disk.OS.SyncDir(filepath.Dir(path))
}
