//go:build cgo && unix

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/bridge/plugin/check"
	"github.com/p2pdiloco/p2pdiloco/cmd/internal/cli"
	"github.com/p2pdiloco/p2pdiloco/cmd/internal/clitest"
	"github.com/p2pdiloco/p2pdiloco/internal/swarm"
)

// trainerLibrary builds one of the plug-in's test trainers.
func trainerLibrary(t *testing.T, name string) string {
	t.Helper()
	compiler, out := os.Getenv("CC"), filepath.Join(t.TempDir(), name+".so")
	if compiler == "" {
		compiler = "cc"
	}
	cmd := exec.CommandContext(t.Context(), compiler, "-std=c11", "-D_GNU_SOURCE", "-I../../bridge/include", "-shared",
		"-fPIC",
		"-o", out, filepath.Join("../../bridge/plugin/testdata", name+".c"), "-lm")
	if b, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", cmd, err, b)
	}
	return out
}

// alone are the flags of a short run that one peer founds at once, with a configuration of its
// library.
func alone(t *testing.T, config string, args ...string) []string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "config.json")
	write(t, file, config)
	return slices.Concat([]string{
		"join", "--run", swarm.RunName("lib"), "--rounds", "3", "--inner-steps", "5", "--outer", "sgd", "--preset",
		"lan", "--trainer-config", file, "--json",
	}, onLoopback, args)
}

// TestALibraryGoesOnWhereItWas: a node is killed with -9, with its library, in the midst of a
// round, and long before the first checkpoint. The next one's library begins that round as it has
// begun, and trains to the end of the run.
func TestALibraryGoesOnWhereItWas(t *testing.T) {
	t.Parallel()
	home, dir := t.TempDir(), filepath.Join(t.TempDir(), "data")
	args := alone(t, `{"size": 300, "pause_ms": 200, "journal":1}`, "--trainer", trainerLibrary(t, "bowl"),
		"--data-dir", dir, "--checkpoint-every", "100")
	file := filepath.Join(dir, "trainer", "journal")
	journal := func() string {
		b, _ := os.ReadFile(file)
		return string(b)
	}
	p := clitest.Start(t, home, args...)
	clitest.Until(t, "the third round", func() bool { return strings.Contains(journal(), "slot 3 ") })
	p.Signal(t, os.Kill)
	p.Ends(t)
	remove(t, file)
	p = clitest.Start(t, home, args...)
	r := read(t, p)
	if journal() != "slot 3 after 10 steps\n" || !r.Ended || r.Parameters != 300 || r.LossLast == nil ||
		*r.LossLast > *r.LossFirst {
		t.Errorf("the library went on with %q: %+v", journal(), r)
	}
	if want := "\nwent on at step 10 of 15 (slot 3); optimizer kept\n"; strings.Count(p.Err.String(), want) != 1 {
		t.Errorf("it does not say %q", want)
	}
	if states, _ := filepath.Glob(filepath.Join(dir, "trainer.state", "*", "rank-0")); len(states) == 0 {
		t.Error("the trainer has no states")
	}
}

// TestJoinWithABadLibrary: a trainer that crashes, or cannot be loaded, is one line and exit status
// 1.
func TestJoinWithABadLibrary(t *testing.T) {
	t.Parallel()
	bad := trainerLibrary(t, "bad")
	for _, c := range []struct {
		library, config string
		code            int
		want            string
	}{
		{
			bad, `{"how":"crash from-slot-3", "in":"run"}`, cli.ExitFailed,
			"p2pdiloco: trainer: slot 3: " + bad + ": run for slot 3: it crashed (SIGSEGV, segmentation fault",
		},
		{bad, `{"how":"fail", "in":"init"}`, cli.ExitFailed, "trainer: init: " + bad + ": init: the data are [31mgone"},
		{"./none.so", `{}`, cli.ExitUsage, "p2pdiloco: --trainer ./none.so: there is no such file"},
	} {
		t.Run(c.config, func(t *testing.T) {
			t.Parallel()
			p := clitest.Start(t, t.TempDir(), alone(t, c.config, "--trainer", c.library, "--log-level", "error")...)
			code := p.Ends(t)
			var lines []string
			for line := range strings.Lines(p.Err.String()) {
				if strings.HasPrefix(line, "p2pdiloco: ") {
					lines = append(lines, line)
				}
			}
			if code != c.code || len(lines) != 1 || !strings.Contains(lines[0], c.want) {
				t.Errorf("exit %d, %q", code, lines)
			}
		})
	}
}

func TestTrainerCheck(t *testing.T) {
	t.Parallel()
	home, bowl := t.TempDir(), trainerLibrary(t, "bowl")
	p := clitest.Start(t, home, "trainer-check", bowl, "--against", bowl, "--steps", "2", "--json")
	p.Exits(t, cli.ExitOK, "ok      cancel")
	var r check.Report
	if p.Read(t, &r); !r.OK || len(r.Comparisons) != 1 {
		t.Errorf("%+v", r)
	}
	answers(t, home, cli.ExitFailed, "failed  open", "trainer-check", filepath.Join(home, "none.so"))
	clitest.Answers(t, newRoot, cli.ExitUsage, []clitest.Case{
		{"trainer-check", "takes the path of one library"},
		{"trainer-check x --steps 0", "--steps must be at least 1"},
		{
			"trainer-check x --trainer-config /nonexistent",
			"--trainer-config /nonexistent: open /nonexistent: no such file",
		},
	})
}
