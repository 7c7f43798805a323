//go:build unix

package swarm

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func startShell(t *testing.T, l *Launcher, script string) *Process {
	t.Helper()
	p, err := l.Start("/bin/sh", t.TempDir(), "child", "-c", script)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestProcess(t *testing.T) {
	l := NewLauncher()
	defer l.Close()
	p := startShell(t, l, "echo out; echo first >&2; echo last >&2; exit 3")
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
	if _, err := l.Start(filepath.Join(t.TempDir(), "none"), t.TempDir(), "child"); err == nil {
		t.Error("a program that does not exist was started")
	}
}

// TestChildrenGetNoSettings: what the environment sets is for the parent; a child that took it,
// too, would be another one than asked for.
func TestChildrenGetNoSettings(t *testing.T) {
	t.Setenv("P2PDILOCO_TRAINER", "none")
	t.Setenv("P2PDILOCO_CONFIG", "run.toml")
	t.Setenv("P2PDILOCO_TEST_KEPT", "1")
	l := NewLauncher()
	defer l.Close()
	p := startShell(t, l, "env")
	<-p.Ended
	b, err := os.ReadFile(p.Stdout)
	if env := string(b); err != nil || strings.Contains(env, "P2PDILOCO_TRAINER") ||
		strings.Contains(env, "P2PDILOCO_CONFIG") ||
		!strings.Contains(env, "P2PDILOCO_TEST_KEPT=1\n") || !strings.Contains(env, "PATH=") {
		t.Errorf("%v, environment\n%s", err, b)
	}
}

// TestStopAll has one child that leaves when asked once, one when asked twice, and one that never
// does.
func TestStopAll(t *testing.T) {
	l := NewLauncher()
	defer l.Close()
	const loop = "echo ready; while :; do sleep 0.02; done"
	once := startShell(t, l, "trap 'exit 0' TERM; "+loop)
	twice := startShell(t, l, "n=0; trap 'n=$((n+1)); [ $n = 2 ] && exit 130' TERM; "+loop)
	never := startShell(t, l, "trap '' TERM; "+loop)
	all := []*Process{once, twice, never}
	for _, p := range all {
		waitFor(t, p.Stdout, "ready")
	}
	hurry := make(chan struct{})
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		<-once.Ended
		close(hurry) // no need to wait for the grace
	}()
	StopAll(all, hurry)
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
