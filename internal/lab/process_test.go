//go:build unix

package lab

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// shells starts shell scripts, each of which runs until Close at most.
func shells(t *testing.T, hurry chan struct{}, scripts ...string) (*Swarm, []*Process) {
	t.Helper()
	s, err := NewSwarm(Setting{Hurry: hurry}, Loopback{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	for _, script := range scripts {
		if _, err := s.Start(exec.Command("/bin/sh", "-c", script), t.TempDir(), "child"); err != nil {
			t.Fatal(err)
		}
	}
	return s, s.started
}

func TestProcess(t *testing.T) {
	s, started := shells(t, nil, "echo out; echo first >&2; echo last >&2; exit 3")
	p := started[0]
	<-p.Ended
	if code, ok := p.Exit(); code != 3 || !ok {
		t.Errorf("exit %d, %v", code, ok)
	}
	if b, err := os.ReadFile(p.Stdout); err != nil || string(b) != "out\n" {
		t.Errorf("stdout %q, %v", b, err)
	}
	if got := Tail(p.Log); !strings.HasSuffix(got, "first\n    last") {
		t.Errorf("log ends with %q", got)
	}
	if _, err := s.Start(exec.Command(filepath.Join(t.TempDir(), "none")), t.TempDir(), "child"); err == nil {
		t.Error("a program that does not exist was started")
	}
}

// TestChildrenGetNoSettings: what the environment sets is for the parent; a child that took it,
// too, would be another one than asked for.
func TestChildrenGetNoSettings(t *testing.T) {
	t.Setenv("P2PDILOCO_TRAINER", "none")
	t.Setenv("P2PDILOCO_CONFIG", "run.toml")
	t.Setenv("P2PDILOCO_TEST_KEPT", "1")
	_, started := shells(t, nil, "env")
	<-started[0].Ended
	b, err := os.ReadFile(started[0].Stdout)
	if env := string(b); err != nil || strings.Contains(env, "P2PDILOCO_TRAINER") ||
		strings.Contains(env, "P2PDILOCO_CONFIG") ||
		!strings.Contains(env, "P2PDILOCO_TEST_KEPT=1\n") || !strings.Contains(env, "PATH=") {
		t.Errorf("%v, environment\n%s", err, b)
	}
}

// TestStop has one child that leaves when asked once, one when asked twice, and one that never
// does.
func TestStop(t *testing.T) {
	const loop = "echo ready; while :; do sleep 0.02; done"
	hurry := make(chan struct{})
	s, all := shells(t, hurry, "trap 'exit 0' TERM; "+loop,
		"n=0; trap 'n=$((n+1)); [ $n = 2 ] && exit 130' TERM; "+loop, "trap '' TERM; "+loop)
	once, twice, never := all[0], all[1], all[2]
	for _, p := range all {
		waitFor(t, p.Stdout, "ready")
	}
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		<-once.Ended
		close(hurry) // no need to wait for the grace
	}()
	s.Stop()
	<-stopped
	for p, want := range map[*Process]int{once: 0, never: -1} {
		if code, ok := p.Exit(); code != want || !ok {
			t.Errorf("exit %d, %v, want %d", code, ok, want)
		}
	}
	if _, ok := twice.Exit(); !ok {
		t.Error("a child is still running")
	}
}

// waitFor waits until a file holds the text.
func waitFor(t *testing.T, path, text string) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		if b, err := os.ReadFile(path); err == nil && strings.Contains(string(b), text) {
			return
		}
		select {
		case <-tick.C:
		case <-t.Context().Done():
			t.Fatalf("%s never held %q", path, text)
		}
	}
}
