// Package clitest tests the programs of this project: it starts them as processes, waits for what
// they write, and holds all their flags against the rules that flags follow.
package clitest

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/p2pdiloco/p2pdiloco/internal/eventlog"
	"github.com/p2pdiloco/p2pdiloco/internal/sources"
	"github.com/p2pdiloco/p2pdiloco/internal/testutil"
)

// AsProgram is set in the environment to make the test binary be the program: then tests start real
// processes without building anything, and a race detector in the test watches them too.
const AsProgram = "P2PDILOCO_TEST_AS_PROGRAM"

// Main is TestMain of a program whose main function is program.
func Main(m *testing.M, program func()) {
	if os.Getenv(AsProgram) != "" {
		program()
	}
	testutil.Parallel(6)
	for _, v := range os.Environ() { // the user's settings are not the tests'
		if len(sources.Clean([]string{v})) == 0 {
			name, _, _ := strings.Cut(v, "=")
			_ = os.Unsetenv(name)
		}
	}
	goleak.VerifyTestMain(m)
}

// Program is the program in a process of its own.
type Program struct {
	*exec.Cmd
	Out, Err bytes.Buffer
}

// New prepares a command line. Files go below home.
func New(t *testing.T, home string, args ...string) *Program {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := &Program{Cmd: exec.CommandContext(t.Context(), exe, args...)}
	p.Dir = home
	p.Env = append(os.Environ(), AsProgram+"=1", "XDG_STATE_HOME="+home)
	p.Stdout, p.Stderr = &p.Out, &p.Err
	p.WaitDelay = 5 * time.Second // a command of it may outlive it and hold its output open
	return p
}

// Start prepares a command line and starts it.
func Start(t *testing.T, home string, args ...string) *Program {
	t.Helper()
	p := New(t, home, args...)
	p.Begin(t)
	return p
}

// Begin starts the process. It is killed with the test.
func (p *Program) Begin(t *testing.T) {
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

// Ends waits for the end and returns the exit status.
func (p *Program) Ends(t *testing.T) int {
	t.Helper()
	err := p.Wait()
	if _, exited := errors.AsType[*exec.ExitError](err); err != nil && !exited {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("%v\nstdout:\n%s\nstderr:\n%s", p.Args[1:], &p.Out, &p.Err)
		}
	})
	return p.ProcessState.ExitCode()
}

// Exits waits for the end, which must have an exit status, and what is printed all of the texts.
// It returns what is printed.
func (p *Program) Exits(t *testing.T, want int, texts ...string) (said string) {
	t.Helper()
	code := p.Ends(t)
	said = p.Out.String() + p.Err.String()
	for _, text := range texts {
		if !strings.Contains(said, text) {
			t.Errorf("%v: %q is missing", p.Args[1:], text)
		}
	}
	if code != want {
		t.Errorf("%v: exit %d, want %d", p.Args[1:], code, want)
	}
	return said
}

// Signal sends a signal.
func (p *Program) Signal(t *testing.T, s os.Signal) {
	t.Helper()
	if err := p.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}

// Read reads the document that an ended process has printed.
func (p *Program) Read(t *testing.T, document any) {
	t.Helper()
	if err := json.Unmarshal(p.Out.Bytes(), document); err != nil {
		t.Fatalf("%v: %v: %s%s", p.Args[1:], err, &p.Out, &p.Err)
	}
}

const patience = 60 * time.Second // for what takes a second or two on an idle machine

// Until polls a condition that other processes make true.
func Until(t *testing.T, what string, condition func() bool) {
	t.Helper()
	tick := time.Tick(20 * time.Millisecond)
	late := time.After(patience)
	for !condition() {
		select {
		case <-tick:
		case <-late:
			t.Fatalf("never came: %s", what)
		}
	}
}

// AwaitEvent waits for the first event that is as wanted in a file.
func AwaitEvent(t *testing.T, path, what string, wanted func(eventlog.Line) bool) (found eventlog.Line) {
	t.Helper()
	f := eventlog.Follow(path)
	defer f.Close()
	done := false
	Until(t, what, func() bool {
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

// Await waits for the first event of a name in a file.
func Await(t *testing.T, path, name string) eventlog.Line {
	t.Helper()
	return AwaitEvent(t, path, name, Named(name))
}

// Named wants the first event of a name.
func Named(name string) func(eventlog.Line) bool {
	return func(e eventlog.Line) bool { return e.Event == name }
}
