//go:build linux

package main

import (
	"bytes"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/cmd/internal/clitest"
)

// TestSignalsForACommand: those that do not end a peer reach the command, too. When a terminal was
// gone, the command went on training for as long as it looks for its node; Ctrl-Z stopped the node
// alone; and what asks a trainer to save its state (SIGUSR1) was lost.
func TestSignalsForACommand(t *testing.T) {
	t.Parallel()
	for _, end := range []syscall.Signal{syscall.SIGHUP, syscall.SIGQUIT} {
		t.Run(end.String(), func(t *testing.T) {
			t.Parallel()
			if signal.Ignored(end) {
				t.Skip("the tests run under nohup: no program gets this signal")
			}
			home := t.TempDir()
			pid := filepath.Join(home, "pid")
			// A shell within vfork is not shown as stopped, so it sleeps in the background.
			script := fmt.Sprintf("trap 'echo got-one >&2' USR1; trap 'echo got-two >&2' USR2; "+
				"trap 'echo got-end >&2; exit 3' HUP QUIT; echo $$ >%s; "+
				"while [ -e %[1]s ]; do sleep .05 & wait; done", pid)
			args := boxes(3, 1, "--data-dir", filepath.Join(home, "data"), "--", "sh", "-c", script)
			p := clitest.Start(t, home, args...)
			command := 0
			clitest.Until(t, "the command", func() bool {
				text, _ := os.ReadFile(pid)
				_, err := fmt.Sscan(string(text), &command)
				return err == nil
			})
			send := func(s syscall.Signal, want string, there func() bool) {
				t.Helper()
				p.Signal(t, s)
				clitest.Until(t, want, there)
			}
			told := func(text string) func() bool {
				return func() bool { return strings.Contains(p.Err.String(), text) }
			}
			send(syscall.SIGUSR1, "SIGUSR1", told("got-one"))
			send(syscall.SIGUSR2, "SIGUSR2", told("got-two"))
			send(syscall.SIGTSTP, "both stopped", func() bool { return stopped(command) && stopped(p.Process.Pid) })
			send(syscall.SIGCONT, "both going on", func() bool { return !stopped(command) && !stopped(p.Process.Pid) })
			send(end, end.String(), told("got-end"))
			p.Ends(t)
		})
	}
}

// stopped says whether a process is stopped.
func stopped(pid int) bool {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, state, _ := bytes.Cut(text, []byte(") "))
	return bytes.HasPrefix(state, []byte("T"))
}
