//go:build cgo && unix

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/bridge/plugin/check"
	"github.com/p2pdiloco/p2pdiloco/cmd/internal/cli"
	"github.com/p2pdiloco/p2pdiloco/cmd/internal/clitest"
	"github.com/p2pdiloco/p2pdiloco/internal/report"
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

// runs numbers the runs: peers of one name find each other.
var runs atomic.Int64

// alone are the flags of a short run that one peer founds at once.
func alone(t *testing.T, args ...string) []string {
	t.Helper()
	config := filepath.Join(t.TempDir(), "config.json")
	if err := os.WriteFile(config, []byte(args[len(args)-1]), 0o600); err != nil {
		t.Fatal(err)
	}
	line := append([]string{
		"join", "--run", fmt.Sprintf("lib-%d-%d", os.Getpid(), runs.Add(1)), "--rounds", "3", "--inner-steps", "5",
		"--outer", "sgd", "--preset", "lan", "--trainer-config", config, "--json",
	}, onLoopback...)
	return append(line, args[:len(args)-1]...)
}

// TestJoinWithALibrary runs a whole run of one peer with a shared library; started again, it finds
// the trainer's state.
func TestJoinWithALibrary(t *testing.T) {
	t.Parallel()
	home, dir := t.TempDir(), filepath.Join(t.TempDir(), "data")
	p := clitest.Start(t, home, alone(t, "--trainer", trainerLibrary(t, "bowl"), "--data-dir", dir, `{"size": 300}`)...)
	if code := p.Ends(t); code != cli.ExitOK {
		t.Fatalf("exit %d", code)
	}
	var r report.Peer
	if err := json.Unmarshal(p.Out.Bytes(), &r); err != nil || !r.Ended || r.Parameters != 300 ||
		r.LossLast == nil || *r.LossLast >= *r.LossFirst {
		t.Errorf("%+v, %v", r, err)
	}
	states, _ := filepath.Glob(filepath.Join(dir, "trainer.state", "*", "rank-0"))
	if len(states) == 0 {
		t.Errorf("the trainer's states: %v", states)
	}
	if info, err := os.Stat(filepath.Join(dir, "trainer")); err != nil || !info.IsDir() {
		t.Errorf("the trainer's folder: %v", err)
	}
}

// TestALibraryGoesOnWhereItWas: a node is killed with -9, with its library, in the midst of a
// round, and long before the first checkpoint. The next one's library begins that round as it has
// begun.
func TestALibraryGoesOnWhereItWas(t *testing.T) {
	t.Parallel()
	home, dir := t.TempDir(), filepath.Join(t.TempDir(), "data")
	args := alone(t, "--trainer", trainerLibrary(t, "bowl"), "--data-dir", dir, "--checkpoint-every", "100",
		`{"size": 300, "pause_ms": 200, "journal":1}`)
	journal := func() string {
		b, _ := os.ReadFile(filepath.Join(dir, "trainer", "journal"))
		return string(b)
	}
	p := clitest.Start(t, home, args...)
	clitest.Until(t, "the third round", func() bool { return strings.Contains(journal(), "slot 3 ") })
	if err := p.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	p.Ends(t)
	if err := os.Remove(filepath.Join(dir, "trainer", "journal")); err != nil {
		t.Fatal(err)
	}
	p = clitest.Start(t, home, args...)
	if code := p.Ends(t); code != cli.ExitOK || journal() != "slot 3 after 10 steps\n" {
		t.Errorf("exit %d; the library went on with %q", code, journal())
	}
	if want := "\nwent on at step 10 of 15 (slot 3); optimizer kept\n"; strings.Count(p.Err.String(), want) != 1 {
		t.Errorf("it does not say %q", want)
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
			p := clitest.Start(t, t.TempDir(), alone(t, "--trainer", c.library, "--log-level", "error", c.config)...)
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
	var r check.Report
	if code := p.Ends(t); code != cli.ExitOK || json.Unmarshal(p.Out.Bytes(), &r) != nil || !r.OK ||
		len(r.Comparisons) != 1 || !strings.Contains(p.Err.String(), "ok      cancel") {
		t.Errorf("exit %d, %+v", code, r)
	}
	bad := clitest.Start(t, home, "trainer-check", filepath.Join(home, "none.so"))
	if code := bad.Ends(t); code != cli.ExitFailed || !strings.Contains(bad.Out.String(), "failed  open") {
		t.Errorf("exit %d, %s", code, &bad.Out)
	}
	for _, c := range []struct{ args, want string }{
		{"trainer-check", "takes the path of one library"},
		{"trainer-check x --steps 0", "--steps must be at least 1"},
		{
			"trainer-check x --trainer-config /nonexistent",
			"--trainer-config /nonexistent: open /nonexistent: no such file",
		},
	} {
		if code, _, stderr := clitest.Line(newRoot(), strings.Fields(c.args)...); code != cli.ExitUsage ||
			!strings.Contains(stderr, c.want) {
			t.Errorf("%s: exit %d, %s", c.args, code, stderr)
		}
	}
}
