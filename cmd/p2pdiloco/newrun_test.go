//go:build unix

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/cmd/internal/cli"
	"github.com/p2pdiloco/p2pdiloco/cmd/internal/clitest"
	"github.com/p2pdiloco/p2pdiloco/internal/swarm"
)

// TestTheLastOfFourFoundsTheRunAnew: of four electors of a run of trust byzantine three are lost
// with their data. The one that is left pauses, prints the command, and founds the run anew with
// it; a newcomer finds the new run by its name, and both go on with equal models.
func TestTheLastOfFourFoundsTheRunAnew(t *testing.T) {
	t.Parallel()
	c := &crowd{t: t, name: swarm.RunName("anew"), data: smallData(t), listen: onLoopback}
	home := t.TempDir()
	file := filepath.Join(home, "addrs")
	_ = clitest.Start(t, home, append([]string{"bootstrap", "--addr-file", file}, onLoopback...)...)
	clitest.Until(t, "the address file", func() bool {
		b, _ := os.ReadFile(file)
		c.boot, _, _ = strings.Cut(string(b), "\n")
		return c.boot != ""
	})
	founding := []string{"--start-peers", "4", "--trust", "byzantine", "--rounds", "1000", "--inner-steps", "1"}
	var dirs []string
	for i := range 4 {
		dirs = append(dirs, filepath.Join(home, fmt.Sprint(i)))
		p, events := c.joins(dirs[i], founding...)
		c.peers, c.events = append(c.peers, p), append(c.events, events)
	}
	c.goOn(2)
	order := func(code int, want string, words ...string) string {
		t.Helper()
		p := clitest.Start(t, home, append([]string{"recover", "--new-run"}, words...)...)
		got := p.Ends(t)
		if text := p.Out.String() + p.Err.String(); got != code || !strings.Contains(text, want) {
			t.Fatalf("%q: exit %d, %s\nwanted %d and %q", words, got, text, code, want)
		}
		return p.Out.String()
	}
	order(cli.ExitFailed, "needs no new run", "--data-dir", dirs[0])

	for i, p := range c.peers[1:] {
		if err := p.Process.Signal(syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		p.Ends(t)
		if err := os.RemoveAll(dirs[i+1]); err != nil {
			t.Fatal(err)
		}
	}
	clitest.Until(t, "the advice to found the run anew", func() bool {
		status := clitest.Start(t, home, "status", "--json", "--data-dir", dirs[0])
		return status.Ends(t) == cli.ExitOK && strings.Contains(status.Out.String(), "p2pdiloco recover --new-run")
	})
	command := printed(t, order(cli.ExitUsage, "by the 1 member that is heard", "--data-dir", dirs[0]), dirs[0])
	order(cli.ExitFailed, "end it first", command...)
	if err := c.peers[0].Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	c.peers[0].Ends(t)
	order(cli.ExitOK, "from the model of slot "+command[slices.Index(command, "--slot")+1], command...)
	order(cli.ExitFailed, "is one of the new run already", command...)

	left, here := c.joins(dirs[0])
	applies(t, here, 1)
	fresh, there := c.joins(filepath.Join(home, "fresh"))
	applies(t, there, 2)
	sameRoots(t, here, there)
	leave(t, left, fresh)
}

// joins starts a peer of the run, with settings of the run if it is to found it.
func (c *crowd) joins(dir string, founding ...string) (p *clitest.Program, events string) {
	c.t.Helper()
	home := c.t.TempDir()
	events = filepath.Join(home, "events")
	args := []string{
		"join", "--run", c.name, "--preset", "lan", "--bootstrap", c.boot, "--data", c.data, "--data-dir", dir,
		"--events", events,
	}
	return clitest.Start(c.t, home, slices.Concat(args, founding, tiny, c.listen)...), events
}

// printed is the command that recover --new-run prints, after these two words, for a data
// directory.
func printed(t *testing.T, text, dir string) []string {
	t.Helper()
	_, rest, found := strings.Cut(text, "  p2pdiloco recover --new-run ")
	line, _, _ := strings.Cut(rest, "\n")
	if !found || !strings.Contains(line, "--data-dir DIR ") {
		t.Fatalf("no command is printed:\n%s", text)
	}
	return strings.Fields(strings.Replace(line, " DIR ", " "+dir+" ", 1))
}

// sameRoots wants slots that both peers have applied, with equal state roots.
func sameRoots(t *testing.T, one, two string) {
	t.Helper()
	roots, shared := map[uint64]string{}, 0
	for _, e := range lines(t, one) {
		if e.Event == "slot.applied" {
			roots[e.Slot] = e.StateRoot
		}
	}
	for _, e := range lines(t, two) {
		if root, ok := roots[e.Slot]; ok && e.Event == "slot.applied" {
			shared++
			if root != e.StateRoot {
				t.Errorf("slot %d: state roots %s and %s", e.Slot, root, e.StateRoot)
			}
		}
	}
	if shared == 0 {
		t.Error("the peers share no slot")
	}
}
