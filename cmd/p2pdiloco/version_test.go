//go:build unix

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/cmd/internal/cli"
	"github.com/p2pdiloco/p2pdiloco/cmd/internal/clitest"
	"github.com/p2pdiloco/p2pdiloco/internal/lab"
	"github.com/p2pdiloco/p2pdiloco/internal/testutil"
)

// version2 refuses what is of version 2, with what can finish its run.
const version2 = " is of protocol version 2, not 3-dev: a release that speaks version 2 (p2pdiloco version says " +
	"which one it speaks) can finish its run"

// Data directories and tickets of version 2 are refused by name, and nothing in the directory is
// changed.
func TestDirectoriesAndTicketsOfVersion2AreRefused(t *testing.T) {
	old, err := os.ReadFile("../../spec/testdata/version2.spec")
	must(t, err)
	home := t.TempDir()
	write(t, filepath.Join(home, "run.spec"), string(old))
	for _, command := range [][]string{
		{"join"}, {"export", "--out", "model.safetensors"}, {"status"}, {"doctor", "--timeout", "1s"},
	} {
		code := cli.ExitFailed
		if command[0] == "join" {
			code = cli.ExitUsage
		}
		answers(t, t.TempDir(), code, "the run's spec"+version2, append(command, "--data-dir", home)...)
	}
	if left, err := os.ReadDir(home); err != nil || len(left) != 1 {
		t.Errorf("the directory holds %v, %v", left, err)
	}
	ticket, err := os.ReadFile("../../internal/ticket/testdata/version2.txt")
	must(t, err)
	answers(t, t.TempDir(), cli.ExitUsage, "the ticket"+version2, "join", strings.TrimSpace(string(ticket)))
}

// A peer of version 2 and one of this version see each other, and each says why the other one may
// not take part in its run. Each goes on with a run of its own.
func TestPeersOfVersion2AreRefused(t *testing.T) {
	if !testutil.Nightly() {
		t.Skip("builds the program of an earlier commit: only with P2PDILOCO_TEST=nightly")
	}
	g := newGated(t, "--run", lab.RunName("versions"), "--trust", "crash", "--rounds", "12", "--inner-steps", "2")
	old := g.prepare("old")
	old.Path = buildOld(t)
	old = g.begin(old)
	young := g.begin(g.prepare("young"))
	founded := clitest.Await(t, young.events, "run.founded")
	if theirs := clitest.Await(t, old.events, "run.founded"); theirs.RunID == founded.RunID {
		t.Errorf("both are in run %s", theirs.RunID)
	}
	for _, p := range []gatedPeer{young, old} {
		p.Signal(t, syscall.SIGINT)
	}
	young.Exits(t, cli.ExitOK, `reason="you speak protocol version 203, this run speaks 2`)
	old.Exits(t, cli.ExitOK, `reason="your program`+version2)
	answers(t, t.TempDir(), cli.ExitUsage, "the run's spec"+version2, "join", "--data-dir", old.dir)
}

// oldCommit has a program of version 2.
const oldCommit = "d21fa76a"

// buildOld builds that program from the history of this repository.
func buildOld(t *testing.T) string {
	top, err := exec.Command("git", "rev-parse", "--show-toplevel").Output()
	if err == nil {
		err = exec.Command("git", "cat-file", "-e", oldCommit+"^{commit}").Run()
	}
	if err != nil {
		t.Skipf("commit %s is not in this clone (fetch its whole history): %v", oldCommit, err)
	}
	tree, program := t.TempDir(), filepath.Join(t.TempDir(), "p2pdiloco-old")
	build := exec.Command("sh", "-c",
		`git -C "$1" archive "$2" | tar -x -C "$3" && cd "$3" && go build -o "$4" ./cmd/p2pdiloco`,
		"sh", strings.TrimSpace(string(top)), oldCommit, tree, program)
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building %s: %v\n%s", oldCommit, err, out)
	}
	return program
}
