//go:build !failpoints

package main

import (
	"os"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/cmd/internal/cli"
	"github.com/p2pdiloco/p2pdiloco/cmd/internal/clitest"
)

// TestFailpointsNeedTheirTag: this program says how to get one that has failpoints, and a program
// that peers shall run must have them.
func TestFailpointsNeedTheirTag(t *testing.T) {
	clitest.Answers(t, newRoot, cli.ExitUsage, []clitest.Case{
		{"chaos --faults failpoint", "this program has no failpoints: go run -tags failpoints"},
		{"chaos --faults failpoint --program /dev/null", "/dev/null has no failpoints: "},
		{"chaos --faults failpoint --program " + os.Args[0], os.Args[0] + " has no failpoints: "},
		{"chaos --faults failpoint --program /no/such", "--program /no/such: "},
	})
}
