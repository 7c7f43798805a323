//go:build cgo && unix

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/bridge/cgo"
	"github.com/p2pdiloco/p2pdiloco/cmd/internal/cli"
	"github.com/p2pdiloco/p2pdiloco/cmd/internal/clitest"
	"github.com/p2pdiloco/p2pdiloco/internal/lab"
	"github.com/p2pdiloco/p2pdiloco/internal/testutil"
)

// trainerLibrary builds one of the bridge's test trainers.
func trainerLibrary(t *testing.T, name string) string {
	t.Helper()
	compiler, out := os.Getenv("CC"), filepath.Join(t.TempDir(), name+".so")
	if compiler == "" {
		compiler = "cc"
	}
	cmd := exec.CommandContext(t.Context(), compiler, "-std=c11", "-D_GNU_SOURCE", "-I../../bridge/include", "-shared",
		"-fPIC",
		"-o", out, filepath.Join("../../bridge/cgo/testdata", name+".c"), "-lm")
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
		"join", "--run", lab.RunName("lib"), "--rounds", "3", "--inner-steps", "5", "--outer", "sgd", "--preset",
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

// TestJoinWithABadLibrary: a trainer that fails, or cannot be loaded, is one line and an exit
// status.
func TestJoinWithABadLibrary(t *testing.T) {
	t.Parallel()
	bad := trainerLibrary(t, "bad")
	for _, c := range []struct {
		library, config string
		code            int
		want            string
	}{
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

// TestACrashedLibraryIsStartedAgain: whatever a library ends the process with, in whichever call,
// what starts the program again does so, and the same member trains to the end of the run: the unit
// of examples/multihost, and a loop that ends at the statuses of docs/reference/process.md.
func TestACrashedLibraryIsStartedAgain(t *testing.T) {
	t.Parallel()
	unit, err := os.ReadFile("../../examples/multihost/systemd/p2pdiloco-peer@.service")
	must(t, err)
	_, prevent, _ := strings.Cut(string(unit), "\nRestartPreventExitStatus=")
	prevent, _, _ = strings.Cut(prevent, "\n")
	loop := []string{"0", "2", "3", "4"}
	ways := []struct{ how, in, call string }{
		{"crash", "run", "run for slot 1"},
		{"exit", "export_gradient", "export_gradient"},
		{"killed", "save", "save"},
		// from here at night: the calls are those of bridge/cgo's TestCrashes
		{"hang", "run", "run for slot 1"},
		{"abort", "load", "load"},
		{"exit", "evaluate", "evaluate"},
	}
	for _, c := range ways[:testutil.Choose(3, 3, len(ways))] {
		t.Run(c.in+"/"+c.how, func(t *testing.T) {
			t.Parallel()
			home, dir := t.TempDir(), filepath.Join(t.TempDir(), "data")
			args := alone(t, `{"size":300, "how":"`+c.how+` once", "in":"`+c.in+`"}`, "--trainer",
				trainerLibrary(t, "bad"), "--data-dir", dir, "--trainer-timeout", "1s")
			ids := make(map[string]bool)
			for starts := 1; ; starts++ {
				p := clitest.Start(t, home, args...)
				status := strconv.Itoa(p.Ends(t)) // -1: a signal
				id, err := os.ReadFile(filepath.Join(dir, "identity"))
				must(t, err)
				ids[string(id)] = true
				if slices.Contains(loop, status) {
					if starts != 2 || status != "0" || len(ids) != 1 ||
						!strings.Contains(strings.ReplaceAll(p.Err.String(), `"`, ""), " call="+c.call+"\n") ||
						!strings.Contains(p.Out.String(), `"rounds_applied":3`) {
						t.Errorf("it ended %d times, with status %s, as %d peers: %s", starts, status, len(ids),
							p.Err.String())
					}
					return
				}
				if slices.Contains(strings.Fields(prevent), status) || starts > 3 {
					t.Fatalf("start %d ended with status %s: the unit starts nothing again after %s: %s", starts,
						status, prevent, p.Err.String())
				}
			}
		})
	}
}

func TestTrainerCheck(t *testing.T) {
	t.Parallel()
	home, bowl := t.TempDir(), trainerLibrary(t, "bowl")
	p := clitest.Start(t, home, "trainer-check", bowl, "--against", bowl, "--steps", "2", "--json")
	p.Exits(t, cli.ExitOK, "ok      cancel")
	var r cgo.CheckReport
	if p.Read(t, &r); !r.OK || len(r.Comparisons) != 1 {
		t.Errorf("%+v", r)
	}
	answers(t, home, cli.ExitFailed, "failed  open", "trainer-check", filepath.Join(home, "none.so"))
	bad := trainerLibrary(t, "bad")
	for _, c := range []struct{ config, want string }{
		{`{"how":"crash", "in":"run"}`, "failed  run for slot 1 "},
		{`{"how":"exit", "in":"destroy"}`, "failed  destroy "},
		{`{"how":"hang", "in":"load"}`, "failed  load "},
		{`{"size":300, "how":"pid", "in":"init"}`, "failed  another process"},
	} {
		file := filepath.Join(t.TempDir(), "config")
		write(t, file, c.config)
		answers(t, home, cli.ExitFailed, c.want, "trainer-check", bad, "--trainer-config", file, "--trainer-timeout",
			"1s")
	}
	clitest.Answers(t, newRoot, cli.ExitUsage, []clitest.Case{
		{"trainer-check", "arguments given: 0, needed: 1: p2pdiloco trainer-check LIBRARY"},
		{"trainer-check x --steps 0", "--steps must be at least 1"},
		{
			"trainer-check x --trainer-config /nonexistent",
			"--trainer-config /nonexistent: open /nonexistent: no such file",
		},
	})
}
