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

// TestTheLastOfFourFoundsANewRun: of four electors of a run of trust byzantine three are lost with
// their data. The one that is left pauses and says what to do. Done as it stands there, that founds
// a new run from the dead run's model.
func TestTheLastOfFourFoundsANewRun(t *testing.T) {
	t.Parallel()
	c := &crowd{t: t, name: swarm.RunName("dead"), data: smallData(t), listen: onLoopback}
	c.boot = bootNode(t)
	home := t.TempDir()
	founding := []string{
		"--run", c.name, "--start-peers", "4", "--trust", "byzantine", "--rounds", "1000", "--inner-steps", "1",
	}
	var dirs []string
	for i := range 4 {
		dirs = append(dirs, filepath.Join(home, fmt.Sprint(i)))
		p, events := c.joins(dirs[i], founding...)
		c.peers, c.events = append(c.peers, p), append(c.events, events)
	}
	c.goOn(2)
	for i, p := range c.peers[1:] {
		if err := p.Process.Signal(syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		p.Ends(t)
		if err := os.RemoveAll(dirs[i+1]); err != nil {
			t.Fatal(err)
		}
	}
	var advice string
	clitest.Until(t, "the advice to found a new run", func() bool {
		status := clitest.Start(t, home, "status", "--data-dir", dirs[0])
		code := status.Ends(t)
		_, after, found := strings.Cut(status.Out.String(), "the outer momentum begins at 0 there: ")
		advice, _, _ = strings.Cut(after, "\n")
		return code == cli.ExitOK && found
	})
	forced := clitest.Start(t, home, "recover", "--yes", "--data-dir", dirs[0])
	if code := forced.Ends(t); code != cli.ExitFailed || !strings.Contains(forced.Err.String(), advice) {
		t.Errorf("ordered to recover: exit %d, %s", code, &forced.Err)
	}
	if err := c.peers[0].Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	c.peers[0].Ends(t)

	model, name := filepath.Join(home, "model.safetensors"), swarm.RunName("new")
	names := strings.NewReplacer("DIR", dirs[0], "FILE", model, "NAME", name)
	commands := strings.Split(names.Replace(advice), ", then ")
	if len(commands) != 2 {
		t.Fatalf("it says %q", advice)
	}
	words := func(command string) []string { return strings.Fields(command)[1:] }
	export := clitest.Start(t, home, words(commands[0])...)
	if code := export.Ends(t); code != cli.ExitOK {
		t.Fatalf("%s: exit %d, %s", commands[0], code, &export.Err)
	}
	left, events := c.joins(filepath.Join(home, "anew"), slices.Concat(words(commands[1])[1:], []string{
		"--trust", "byzantine", "--inner-steps", "1",
	})...)
	applies(t, events, 2)
	leave(t, left)
}

// joins starts a peer, with more settings.
func (c *crowd) joins(dir string, more ...string) (p *clitest.Program, events string) {
	c.t.Helper()
	home := c.t.TempDir()
	events = filepath.Join(home, "events")
	args := []string{
		"join", "--preset", "lan", "--bootstrap", c.boot, "--data", c.data, "--data-dir", dir, "--events", events,
	}
	return clitest.Start(c.t, home, slices.Concat(args, more, tiny, c.listen)...), events
}
