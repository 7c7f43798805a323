//go:build linux

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco/cmd/internal/cli"
	"github.com/p2pdiloco/p2pdiloco/cmd/internal/clitest"
)

// block is a block of commands on a page, and where a reader types it: in "sh" as it is, in "sh a
// terminal" and "sh two terminals" where it runs on. What needs another machine or a GPU stands in
// blocks of other languages, like console, which nobody types here.
var block = regexp.MustCompile("(?ms)^```sh *([^\n]*)\n(.*?)^```$")

// typed is what each shell begins with: the program is this test, and to build it takes no time.
const typed = `go() {
	case "$1 $2" in
	"build ./cmd/p2pdiloco") ;;
	"run ./cmd/p2pdiloco") shift 2 && ./p2pdiloco "$@" ;;
	*) return 1 ;;
	esac
}
`

// TestTutorials types the commands of the pages that newcomers begin with. What they leave open is
// small, and on loopback: peers find each other by a bootstrap node in place of mDNS.
func TestTutorials(t *testing.T) {
	t.Parallel()
	for page, blocks := range map[string]int{"README.md": 1, "docs/start/getting-started.md": 7} {
		t.Run(page, func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(filepath.Join("../..", page))
			must(t, err)
			r := newReader(t)
			if page == "README.md" { // the others' commands say how many, or adopt the run's
				r.environ = append(r.environ, "P2PDILOCO_ROUNDS=2")
			}
			found := block.FindAllStringSubmatch(string(text), -1)
			for _, b := range found {
				switch where, commands := b[1], b[2]; where {
				case "":
					r.types(t, commands)
				case "a terminal":
					r.begins(t, commands)
				case "two terminals":
					r.begins(t, commands)
					r.begins(t, commands)
				default:
					t.Fatalf("nobody knows where to type ```sh %s", where)
				}
			}
			if len(found) < blocks {
				t.Errorf("the page has %d blocks to type, and had %d", len(found), blocks)
			}
			r.leaves(t)
		})
	}
}

// reader is somebody with a clone, in which the program is built, and terminals.
type reader struct {
	home, clone string
	environ     []string
	terminals   []*clitest.Program
}

func newReader(t *testing.T) *reader {
	t.Helper()
	r := &reader{home: t.TempDir(), clone: t.TempDir()}
	exe, err := os.Executable()
	must(t, err)
	program := "#!/bin/sh\n" + clitest.AsProgram + "=1 exec '" + exe + "' \"$@\"\n"
	must(t, os.WriteFile(filepath.Join(r.clone, "p2pdiloco"), []byte(program), 0o700))
	must(t, os.Rename(smallData(t), filepath.Join(r.home, "texts")))
	addresses := filepath.Join(r.clone, "bootstrap.addr")
	clitest.Start(t, r.clone, "bootstrap", onLoopback[0], onLoopback[1], "--addr-file", addresses)
	var address []byte
	clitest.Until(t, "the bootstrap node's address", func() bool {
		address, err = os.ReadFile(addresses)
		return err == nil && len(address) > 0
	})
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "XDG_") {
			r.environ = append(r.environ, v)
		}
	}
	r.environ = append(r.environ, "HOME="+r.home, "P2PDILOCO_BOOTSTRAP="+strings.TrimSpace(string(address)),
		"P2PDILOCO_LISTEN="+onLoopback[1], "P2PDILOCO_MODEL="+tiny[1], "P2PDILOCO_DATA="+filepath.Join(r.home, "texts"),
		"P2PDILOCO_PRESET=lan", "P2PDILOCO_INNER_STEPS=2")
	return r
}

// begins types commands in a terminal of their own, where they run on.
func (r *reader) begins(t *testing.T, commands string) *clitest.Program {
	t.Helper()
	p := &clitest.Program{Cmd: exec.CommandContext(t.Context(), "bash", "-ec", typed+commands)}
	p.Dir, p.Env, p.Stdout, p.Stderr, p.WaitDelay = r.clone, r.environ, &p.Out, &p.Err, 5*time.Second
	p.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C reaches all in a terminal
	p.Cancel = func() error { return syscall.Kill(-p.Process.Pid, syscall.SIGKILL) }
	must(t, p.Start())
	r.terminals = append(r.terminals, p)
	return p
}

// types types commands, again for a while where they fail: other terminals have just begun.
func (r *reader) types(t *testing.T, commands string) {
	t.Helper()
	for late := time.Now().Add(time.Minute); ; time.Sleep(200 * time.Millisecond) {
		p := r.begins(t, commands)
		r.terminals = r.terminals[:len(r.terminals)-1]
		stuck := time.AfterFunc(time.Until(late)+20*time.Second, func() { _ = p.Cancel() })
		err := p.Wait()
		stuck.Stop()
		if err == nil {
			return
		} else if time.Now().After(late) {
			for _, other := range r.terminals { // and the log shows them
				_ = other.Cancel()
				other.Ends(t)
			}
			t.Fatalf("%v: %s\n%s%s", err, commands, &p.Out, &p.Err)
		}
	}
}

// leaves types Ctrl-C in each terminal, which ends what still runs there as it should.
func (r *reader) leaves(t *testing.T) {
	t.Helper()
	for _, p := range r.terminals {
		must(t, syscall.Kill(-p.Process.Pid, syscall.SIGINT))
	}
	for _, p := range r.terminals {
		p.Exits(t, cli.ExitOK)
	}
}
