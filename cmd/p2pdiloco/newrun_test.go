//go:build unix

package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/cmd/internal/cli"
	"github.com/p2pdiloco/p2pdiloco/cmd/internal/clitest"
	"github.com/p2pdiloco/p2pdiloco/internal/lab"
)

// TestTheLastOfFourFoundsANewRun: of four electors of a run of trust byzantine three are lost with
// their data. The one that is left pauses and says what to do. Done as it stands there, that founds
// a new run from the dead run's model.
func TestTheLastOfFourFoundsANewRun(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	c := startCrowd(t, 4, onLoopback, "--start-peers", "4", "--trust", "byzantine")
	for i, p := range c.peers[1:] {
		p.Signal(t, syscall.SIGKILL)
		p.Ends(t)
		must(t, os.RemoveAll(c.dirs[i+1]))
	}
	var advice string
	clitest.Until(t, "the advice to found a new run", func() bool {
		status := clitest.Start(t, home, "status", "--data-dir", c.dirs[0])
		status.Ends(t)
		_, after, found := strings.Cut(status.Out.String(), "the outer momentum begins at 0 there: ")
		advice, _, _ = strings.Cut(after, "\n")
		return found
	})
	answers(t, home, cli.ExitFailed, advice, "recover", "--yes", "--data-dir", c.dirs[0])
	c.peers[0].Signal(t, os.Interrupt)
	c.peers[0].Ends(t)

	names := strings.NewReplacer("DIR", c.dirs[0], "FILE", filepath.Join(home, "model.safetensors"), "NAME",
		lab.RunName("new"))
	export, join, found := strings.Cut(names.Replace(advice), ", then ")
	if !found {
		t.Fatalf("it says %q", advice)
	}
	answers(t, home, cli.ExitOK, "", strings.Fields(export)[1:]...)
	left, events := startBare(t, t.TempDir(), slices.Concat(strings.Fields(join)[2:], library(t), []string{
		"--data-dir", filepath.Join(home, "anew"), "--trust", "byzantine", "--inner-steps", "1",
	})...)
	applies(t, events, 2)
	leave(t, left)
}
