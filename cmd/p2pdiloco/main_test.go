package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/p2pdiloco/p2pdiloco/internal/eventlog"
	"github.com/p2pdiloco/p2pdiloco/internal/sources"
)

// asProgram makes the test binary be the program: then tests start real processes without building anything, and a race
// detector in the test watches them too.
const asProgram = "P2PDILOCO_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
	}
	for _, v := range os.Environ() { // the user's settings are not the tests'
		if len(sources.Clean([]string{v})) == 0 {
			name, _, _ := strings.Cut(v, "=")
			_ = os.Unsetenv(name)
		}
	}
	goleak.VerifyTestMain(m)
}

// program is the program in a process of its own, not yet started.
type program struct {
	*exec.Cmd
	stdout, stderr bytes.Buffer
}

// newProgram prepares a command line. Files go below home.
func newProgram(t *testing.T, home string, args ...string) *program {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := &program{Cmd: exec.CommandContext(t.Context(), exe, args...)}
	p.Dir = home
	p.Env = append(os.Environ(), asProgram+"=1", "XDG_STATE_HOME="+home)
	p.Stdout, p.Stderr = &p.stdout, &p.stderr
	return p
}

func startProgram(t *testing.T, home string, args ...string) *program {
	t.Helper()
	p := newProgram(t, home, args...)
	p.start(t)
	return p
}

func (p *program) start(t *testing.T) {
	t.Helper()
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if p.ProcessState == nil {
			_ = p.Process.Kill()
			_ = p.Wait()
		}
	})
}

// ends waits for the end and returns the exit status.
func (p *program) ends(t *testing.T) int {
	t.Helper()
	var exit *exec.ExitError
	if err := p.Wait(); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("%v\nstdout:\n%s\nstderr:\n%s", p.Args[1:], &p.stdout, &p.stderr)
		}
	})
	return p.ProcessState.ExitCode()
}

const patience = 60 * time.Second // for what takes a second or two on an idle machine

// until polls a condition that other processes make true.
func until(t *testing.T, what string, condition func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	late := time.After(patience)
	for !condition() {
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("never came: %s", what)
		}
	}
}

// awaitEvent waits for the first event that is as wanted in a file.
func awaitEvent(t *testing.T, path, what string, wanted func(eventlog.Line) bool) (found eventlog.Line) {
	t.Helper()
	f := eventlog.Follow(path)
	defer f.Close()
	done := false
	until(t, what, func() bool {
		err := f.Next(func(b []byte) {
			e, err := eventlog.Parse(b)
			if err != nil {
				t.Error(err)
			}
			if !done && wanted(e) {
				found, done = e, true
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		return done
	})
	return found
}

func named(name string) func(eventlog.Line) bool {
	return func(e eventlog.Line) bool { return e.Event == name }
}

// smallData is a folder with enough text for the built-in model, and little enough to be read at once.
func smallData(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	text := strings.Repeat("the quick brown fox jumps over the lazy dog, and the five boxing wizards jump quickly\n", 400)
	for _, name := range []string{"a.txt", "b.txt", "c.txt"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(name+"\n"+text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// onLoopback are the flags that keep a test off every other network.
var onLoopback = []string{"--listen", "/ip4/127.0.0.1/tcp/0"}
