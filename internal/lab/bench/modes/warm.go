package modes

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"

	"github.com/p2pdiloco/p2pdiloco/bridge/builtin"
	"github.com/p2pdiloco/p2pdiloco/internal/safetensors"
)

// warmSeed divides the warm start's data otherwise than any seed's.
const warmSeed = 1 << 40

// warm is the common start of all rows and seeds: a model that was trained data-parallel for a
// while, and the state of its optimizer.
type warm struct {
	dir string

	Steps  int     `json:"steps"`
	Loss   float64 `json:"loss"`
	Cached bool    `json:"cached"` // found in the folder
	values []float32
}

const (
	warmModel = "model.safetensors"
	warmState = "trainer.state"
	warmNote  = "warm.json"
)

func (w *warm) path(name string) string { return filepath.Join(w.dir, name) }

// warmStart is the warm start that an earlier bench with equal parameters left in the folder, or a
// new one.
func warmStart(ctx context.Context, cfg Config, corpus *builtin.Corpus) (*warm, error) {
	w := &warm{dir: filepath.Join(cfg.Dir, "warm-"+cfg.warmKey(corpus))}
	t, err := together(cfg, corpus)
	if err != nil {
		return nil, err
	}
	w.values = make([]float32, t.Layout().Elements())
	b, err := os.ReadFile(w.path(warmNote))
	switch {
	case err == nil:
		if err := json.Unmarshal(b, w); err != nil {
			return nil, err
		}
		w.Cached = true
		return w, w.read(t)
	case !errors.Is(err, os.ErrNotExist):
		return nil, err
	}
	if _, err := t.TrainTogether(ctx, cfg.tasks(warmSeed, 1, cfg.WarmSteps)); err != nil {
		return nil, err
	}
	w.Steps = cfg.WarmSteps
	if w.Loss, err = t.Evaluate(ctx); err != nil {
		return nil, err
	}
	return w, errors.Join(t.Export(ctx, w.values), w.write(ctx, t))
}

// warmKey names everything that determines a warm start.
func (c Config) warmKey(corpus *builtin.Corpus) string {
	b, err := json.Marshal([]any{
		c.Model.WithDefaults(), c.Peers, c.WarmSteps, heldOut, corpus.Files(),
		corpus.TrainBytes(), corpus.HeldOutBytes(),
	})
	if err != nil {
		panic(err) // plain numbers
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:6])
}

// write keeps a warm start: the note, by which it is found again, at last.
func (w *warm) write(ctx context.Context, t *builtin.Trainer) error {
	if err := os.MkdirAll(w.dir, 0o755); err != nil {
		return err
	}
	f, err := os.Create(w.path(warmModel))
	if err != nil {
		return err
	}
	err = safetensors.Write(f, nil, safetensors.Vector{Layout: t.Layout(), Values: w.values})
	if err := errors.Join(err, f.Close(), t.Save(ctx, w.path(warmState))); err != nil {
		return err
	}
	b, err := json.Marshal(w)
	return errors.Join(err, os.WriteFile(w.path(warmNote), b, 0o644))
}

func (w *warm) read(t *builtin.Trainer) error {
	f, err := os.Open(w.path(warmModel))
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // only read
	info, err := f.Stat()
	if err != nil {
		return err
	}
	m, err := safetensors.Open(f, info.Size())
	if err != nil {
		return err
	}
	return errors.Join(m.Match(t.Layout(), ""), m.Read(w.values, t.Layout()))
}

// load gives a trainer the model and the optimizer's state.
func (w *warm) load(ctx context.Context, t *builtin.Trainer) error {
	return errors.Join(t.Load(ctx, w.values), t.Restore(ctx, w.path(warmState)))
}

// prepare puts the optimizer's state where a peer with that data directory finds it.
func (w *warm) prepare(dataDir string) error {
	if err := os.MkdirAll(dataDir, 0o700); err != nil {
		return err
	}
	state, err := os.ReadFile(w.path(warmState))
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dataDir, warmState), state, 0o644)
}
