//go:build unix

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/cmd/internal/cli"
	"github.com/p2pdiloco/p2pdiloco/cmd/internal/clitest"
	"github.com/p2pdiloco/p2pdiloco/internal/lab"
	"github.com/p2pdiloco/p2pdiloco/internal/lab/chaos"
)

// TestChaos hurts a small swarm for real: a kill, a leader's death, a leave, and everything the
// checks look at.
func TestChaos(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	kept := filepath.Join(home, "kept")
	p := clitest.Start(t, home, "chaos", "--peers", "4", "--slots", "9", "--seed", "3", "--faults",
		"kill,leader,restart", "--json", "--keep-dir", kept)
	if code := p.Ends(t); code != cli.ExitOK {
		t.Fatalf("exit %d", code)
	}
	var r chaos.Result
	if err := json.Unmarshal(p.Out.Bytes(), &r); err != nil {
		t.Fatalf("stdout is not one JSON document: %v", err)
	}
	if !r.OK || len(r.Schedule) != 3 || len(r.Faults) != 3 || len(r.Checks) != 13 {
		t.Errorf("got %+v", r)
	}
	for _, f := range r.Faults {
		if f.Missed || f.Recovery == 0 || f.Return == 0 || len(f.Victims) != 1 {
			t.Errorf("fault %+v", f)
		}
	}
	if !strings.Contains(p.Err.String(), "no certified slot lost: 9 slots") ||
		!strings.Contains(r.Replay, "--peers 4 --slots 9 --seed 3 --faults kill,leader,restart") {
		t.Errorf("replay %q", r.Replay)
	}
	if again := clitest.Start(t, home, "chaos", "--faults", "kill", "--keep-dir",
		kept); again.Ends(t) != cli.ExitUsage {
		t.Error("a second run began in the first one's folder")
	}
}

// TestChaosFails: a run that is not over in time says so, keeps what helps to find out why, and
// tells how to run it again.
func TestChaosFails(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	p := clitest.New(t, home, "chaos", "--peers", "3", "--slots", "1000", "--faults", "late",
		"--timeout", "6s", "--json")
	p.Env = append(p.Env, "TMPDIR="+home)
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	if code := p.Ends(t); code != cli.ExitFailed {
		t.Errorf("exit %d, want %d", code, cli.ExitFailed)
	}
	var r chaos.Result
	if err := json.Unmarshal(p.Out.Bytes(), &r); err != nil {
		t.Fatal(err)
	}
	hang := slices.IndexFunc(r.Checks, func(c chaos.Check) bool { return c.Name == chaos.CheckHang })
	if r.OK || hang < 0 || r.Checks[hang].OK || !strings.Contains(p.Err.String(), "Run the same again:  "+r.Replay) {
		t.Errorf("got %+v", r.Checks)
	}
	log, err := os.ReadFile(filepath.Join(r.Dir, "run", "peer-1.log"))
	if err != nil || !strings.Contains(string(log), "goroutine ") {
		t.Errorf("no goroutines in the log of a peer that hung: %v", err)
	}
	for _, name := range []string{"peer-1.events", "peer-1.status.json"} {
		if _, err := os.Stat(filepath.Join(r.Dir, "run", name)); err != nil {
			t.Error(err)
		}
	}
}

// TestChaosInterrupted: Ctrl-C ends it, and neither a process nor a temporary folder is left.
func TestChaosInterrupted(t *testing.T) {
	t.Parallel()
	interrupt(t, "run", "chaos", "--peers", "3", "--slots", "1000", "--faults", "stop")
}

// interrupt interrupts a command once three peers, in a folder of its own, have started.
func interrupt(t *testing.T, dir string, args ...string) {
	t.Helper()
	home := t.TempDir()
	p := clitest.New(t, home, args...)
	p.Env = append(p.Env, "TMPDIR="+home)
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	var events []string
	clitest.Until(t, "the peers' events", func() bool {
		events, _ = filepath.Glob(filepath.Join(home, "p2pdiloco-"+args[0]+"-*", dir, "peer-*.events"))
		return len(events) == 3
	})
	var pids []int
	for _, path := range events {
		pids = append(pids, clitest.AwaitEvent(t, path, "a peer's start", clitest.Named("peer.started")).PID)
	}
	if err := p.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if code := p.Ends(t); code != cli.ExitInterrupted {
		t.Errorf("exit %d, want %d", code, cli.ExitInterrupted)
	}
	for _, pid := range pids {
		if lab.Alive(strconv.Itoa(pid)) {
			t.Errorf("process %d is left", pid)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(home, "p2pdiloco-*")); len(left) > 0 {
		t.Errorf("%v is left", left)
	}
}
