package builtin

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// TestSavedStateContinues: a new trainer that restores goes on with the same bits; one that does
// not, with others.
func TestSavedStateContinues(t *testing.T) {
	cfg, file := Config{Width: 16, Heads: 2, Context: 8, Batch: 4}, filepath.Join(t.TempDir(), "state")
	round := func(tr *Trainer, slot uint64) []float32 {
		if stats := train(t, tr, task(slot, "a", 3)); !(stats.GradNorm > 0) {
			t.Fatalf("%+v", stats)
		}
		return slices.Clone(tr.model.flat)
	}
	first := newTestTrainer(t, cfg)
	middle := round(first, 1)
	must(t, first.Save(t.Context(), file))
	want := round(first, 2)
	for _, restored := range []bool{true, false} {
		tr := newTestTrainer(t, cfg)
		if restored {
			must(t, tr.Restore(t.Context(), file))
		}
		must(t, tr.Load(t.Context(), middle))
		if slices.Equal(round(tr, 2), want) != restored {
			t.Errorf("restored: %v, and the same bits: %v", restored, !restored)
		}
	}
}

// TestRestoreRefuses files that are not whole or of another model, and changes nothing then.
func TestRestoreRefuses(t *testing.T) {
	cfg := Config{Width: 16, Heads: 2, Context: 8, Batch: 4}
	wider := cfg
	wider.Width = 32
	saved := func(cfg Config) []byte {
		tr, path := newTestTrainer(t, cfg), filepath.Join(t.TempDir(), "state")
		train(t, tr, task(1, "a", 1))
		must(t, tr.Save(t.Context(), path))
		b, err := os.ReadFile(path)
		must(t, err)
		return b
	}
	restore := func(b []byte) (*Trainer, error) {
		tr, path := newTestTrainer(t, cfg), filepath.Join(t.TempDir(), "state")
		must(t, os.WriteFile(path, b, 0o600))
		return tr, tr.Restore(t.Context(), path)
	}
	good := saved(cfg)
	bit := slices.Clone(good)
	bit[len(bit)/2] ^= 1
	for name, b := range map[string][]byte{
		"other": saved(wider), "bit": bit, "short": good[:len(good)-1], "long": append(slices.Clone(good), 0),
		"empty": nil,
	} {
		if tr, err := restore(b); !errors.Is(err, ErrState) || tr.opt.steps != 0 || tr.opt.first[0] != 0 {
			t.Errorf("%s: %v, then %d steps", name, err, tr.opt.steps)
		}
	}
	if err := newTestTrainer(t, cfg).Restore(t.Context(), t.TempDir()+"/none"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	if _, err := restore(good); err != nil {
		t.Error(err)
	}
}
