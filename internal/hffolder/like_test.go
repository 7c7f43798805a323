package hffolder

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// A link to nowhere stops a folder only if it is a file that goes with the model, and before the
// model is known: an export takes minutes to get it. Any other link to nowhere stopped it, at the
// end.
func TestOnlyFilesThatAreCarriedMustBeThere(t *testing.T) {
	o := output()
	like := filepath.Join(t.TempDir(), "like")
	if err := os.CopyFS(like, os.DirFS(tiny)); err != nil {
		t.Fatal(err)
	}
	o.Like = like
	if err := os.Symlink("nowhere", filepath.Join(like, "pytorch_model.bin")); err != nil {
		t.Fatal(err)
	}
	if err := Write(t.Context(), filepath.Join(t.TempDir(), "out"), o); err != nil {
		t.Error(err)
	}
	if err := os.Symlink("nowhere", filepath.Join(like, "tokenizer.model")); err != nil {
		t.Fatal(err)
	}
	if err := o.Check(filepath.Join(t.TempDir(), "out")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}

// Ctrl-C while a folder is written leaves nothing of it. Hidden folders of the model's size stayed.
func TestAnInterruptedFolderLeavesNothing(t *testing.T) {
	parent := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := Write(ctx, filepath.Join(parent, "out"), output())
	if left, _ := os.ReadDir(parent); !errors.Is(err, context.Canceled) || len(left) > 0 {
		t.Errorf("%v, and there is %v", err, left)
	}
}
