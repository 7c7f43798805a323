package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/cmd/internal/cli"
)

// Ctrl-C while init reads or writes a model ends it with the status of that, and leaves no part of
// the model. While it read, the first one did nothing for minutes.
func TestAnInterruptedInitLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // as the first signal does
	args := []string{"init", "hf:../../internal/hffolder/testdata/tiny"}
	for _, args := range [][]string{args, append(args, "--out", filepath.Join(dir, "m"))} {
		root := newRoot()
		root.SetArgs(args)
		err := root.ExecuteContext(ctx)
		if left, _ := os.ReadDir(dir); !errors.Is(err, cli.ErrInterrupted) || len(left) > 0 {
			t.Errorf("%v, and there is %v", err, left)
		}
	}
}
