//go:build unix

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/cmd/internal/clitest"
	"github.com/p2pdiloco/p2pdiloco/internal/lab"
)

// terminal is a terminal of tmux with programs in windows, which have the numbers of their starts.
type terminal struct {
	tmux func(args ...string) string
	home string
}

func newTerminal(t *testing.T) *terminal {
	t.Helper()
	path, err := exec.LookPath("tmux")
	if err != nil {
		t.Skip("tmux is not installed, in whose terminals this test looks at what programs show: apt-get install tmux")
	}
	home := t.TempDir()
	server := []string{"-f", "/dev/null", "-S", filepath.Join(home, "tmux")}
	tmux := func(args ...string) string {
		cmd := exec.Command(path, slices.Concat(server, args)...)
		cmd.Env = append(os.Environ(), clitest.AsProgram+"=1", "XDG_STATE_HOME="+home, "LC_ALL=C.UTF-8", "TERM=xterm")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("tmux %v: %v: %s", args, err, out)
		}
		return string(out)
	}
	tmux("new-session", "-d", "-x", "160", "-y", "40", "-n", "shell", "cat")
	tmux("set-option", "-g", "remain-on-exit", "on")
	t.Cleanup(func() {
		for pid := range strings.FieldsSeq(tmux("list-panes", "-a", "-f", "#{?pane_dead,0,1}", "-F", "#{pane_pid}")) {
			n, err := strconv.Atoi(pid)
			must(t, err)
			// after a SIGHUP peers leave, and write meanwhile
			must(t, syscall.Kill(n, syscall.SIGKILL))
		}
		tmux("kill-server")
	})
	return &terminal{tmux, home}
}

// opens starts a line of a shell in a window, where $P2PDILOCO is the program.
func (s *terminal) opens(t *testing.T, window, line string) {
	t.Helper()
	exe, err := os.Executable()
	must(t, err)
	s.tmux("new-window", "-d", "-n", window, "-c", s.home, "-e", "P2PDILOCO_PROGRAM="+exe, "exec "+line)
}

// shows waits until a window shows what is wanted, and returns its lines.
func (s *terminal) shows(t *testing.T, window, want string) []string {
	t.Helper()
	var screen string
	wanted := regexp.MustCompile(want)
	defer func() {
		if t.Failed() {
			t.Logf("%s:\n%s", window, screen)
		}
	}()
	clitest.Until(t, want+" in "+window, func() bool {
		screen = strings.TrimRight(s.tmux("capture-pane", "-p", "-t", window), "\n")
		return wanted.MatchString(screen)
	})
	return strings.Split(screen, "\n")
}

// ends presses a key that ends the program in a window, and waits until it has closed its terminal.
func (s *terminal) ends(t *testing.T, window, key string) {
	t.Helper()
	s.tmux("send-keys", "-t", window, key)
	clitest.Until(t, "the end of "+window, func() bool {
		return strings.TrimSpace(s.tmux("list-panes", "-t", window, "-F", "#{pane_dead}")) == "1"
	})
}

// A peer in a terminal shows a line a slot, and writes no escape sequence. top shows the whole run
// there.
func TestTerminal(t *testing.T) {
	t.Parallel()
	s := newTerminal(t)
	name := lab.RunName("test")
	for window, to := range map[string]string{"one": "", "two": " 2>said"} {
		line := slices.Concat([]string{
			`"$P2PDILOCO_PROGRAM" join --preset lan --run`, name, "--data", smallData(t), "--data-dir", window,
			"--rounds 90000 --inner-steps 20 --step-time 40ms",
		}, tiny, onLoopback)
		s.opens(t, window, strings.Join(line, " ")+to)
	}
	told := regexp.MustCompile(`^slot \d+/90000 loss \d.*, \d members?.* left$`)
	screen := s.shows(t, "one", `(?s)slot \d+/90000 loss .* 2 members, `)
	for i, line := range screen {
		if strings.HasPrefix(line, "slot") && !told.MatchString(line) {
			t.Errorf("%q is line %d of\n%s", line, i, strings.Join(screen, "\n"))
		}
	}
	if !slices.Contains(screen, "run "+name+": this peer starts") {
		t.Errorf("the first line is missing:\n%s", strings.Join(screen, "\n"))
	}

	s.opens(t, "three", `"$P2PDILOCO_PROGRAM" top --data-dir two`)
	s.shows(t, "three", `(?s)^run `+name+`  running  slot \d+ of 90000.*step \d+ of 20.*MEMBER.*STATE.* itself `)
	s.ends(t, "three", "q")

	s.ends(t, "one", "C-c")
	s.shows(t, "one", "left the run")
	said, err := os.ReadFile(filepath.Join(s.home, "said"))
	must(t, err)
	if !strings.Contains(string(said), "slot 1/90000 ") || strings.Contains(string(said), "\x1b") {
		t.Errorf("the file has %q", said)
	}
}
