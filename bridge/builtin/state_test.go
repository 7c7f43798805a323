package builtin

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/trainer"
)

// TestSavedStateContinues: a new trainer that restores goes on with the same bits; one that does
// not, with others.
func TestSavedStateContinues(t *testing.T) {
	cfg, file := Config{Width: 16, Heads: 2, Context: 8, Batch: 4}, filepath.Join(t.TempDir(), "state")
	round := func(tr *Trainer, slot uint64) []float32 {
		task := trainer.Task{Slot: slot, Steps: 3, Self: "a", Members: []trainer.PeerID{"a"}}
		stats, err := tr.Train(t.Context(), task)
		if err != nil || !(stats.GradNorm > 0) {
			t.Fatalf("%+v, %v", stats, err)
		}
		return slices.Clone(tr.model.flat)
	}
	first := newTestTrainer(t, cfg)
	middle := round(first, 1)
	if err := first.Save(t.Context(), file); err != nil {
		t.Fatal(err)
	}
	want := round(first, 2)
	for _, restored := range []bool{true, false} {
		tr := newTestTrainer(t, cfg)
		if restored {
			if err := tr.Restore(t.Context(), file); err != nil {
				t.Fatal(err)
			}
		}
		if err := tr.Load(t.Context(), middle); err != nil {
			t.Fatal(err)
		}
		if slices.Equal(round(tr, 2), want) != restored {
			t.Errorf("restored: %v, and the same bits: %v", restored, !restored)
		}
	}
}

// TestRestoreRefuses files that are not whole or of another model, and changes nothing then.
func TestRestoreRefuses(t *testing.T) {
	dir := t.TempDir()
	save := func(name string, cfg Config, change func([]byte) []byte) string {
		tr, path := newTestTrainer(t, cfg), filepath.Join(dir, name)
		if _, err := tr.Train(t.Context(), trainer.Task{
			Steps: 1, Self: "a",
			Members: []trainer.PeerID{"a"},
		}); err != nil {
			t.Fatal(err)
		}
		if err := tr.Save(t.Context(), path); err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, change(b), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	cfg := Config{Width: 16, Heads: 2, Context: 8, Batch: 4}
	wider, same := cfg, func(b []byte) []byte { return b }
	wider.Width = 32
	for _, path := range []string{
		save("other", wider, same),
		save("bit", cfg, func(b []byte) []byte { b[len(b)/2] ^= 1; return b }),
		save("short", cfg, func(b []byte) []byte { return b[:len(b)-1] }),
		save("long", cfg, func(b []byte) []byte { return append(b, 0) }),
		save("empty", cfg, func([]byte) []byte { return nil }),
	} {
		tr := newTestTrainer(t, cfg)
		if err := tr.Restore(t.Context(), path); !errors.Is(err, ErrState) || tr.opt.steps != 0 ||
			tr.opt.first[0] != 0 {
			t.Errorf("%s: %v, then %d steps", path, err, tr.opt.steps)
		}
	}
	if err := newTestTrainer(t, cfg).Restore(t.Context(), filepath.Join(dir, "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	if err := newTestTrainer(t, cfg).Restore(t.Context(), save("good", cfg, same)); err != nil {
		t.Error(err)
	}
}
