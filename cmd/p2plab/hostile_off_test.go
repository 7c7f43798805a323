//go:build !hostile

package main

import (
	"testing"

	"github.com/p2pdiloco/p2pdiloco/cmd/internal/cli"
	"github.com/p2pdiloco/p2pdiloco/cmd/internal/clitest"
)

// TestHostileNeedsItsTag: this program says how to get one that has hostile peers.
func TestHostileNeedsItsTag(t *testing.T) {
	clitest.Answers(t, newRoot, cli.ExitUsage, []clitest.Case{
		{"chaos --hostile mute", "--hostile mute: this program has no hostile peers: go run -tags hostile"},
	})
}
