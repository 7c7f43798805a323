//go:build unix

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco/cmd/internal/cli"
	"github.com/p2pdiloco/p2pdiloco/cmd/internal/clitest"
)

// A peer whose folder of checkpoints was removed makes it again and goes on. One that cannot write
// there, or whose whole directory was removed, ends with a sentence, and the others go on: they
// waited for it in every slot, for ever. Before that a fourth one is killed and comes back.
func TestPeersThatLoseTheirFolder(t *testing.T) {
	t.Parallel()
	c := startCrowd(t, overQUIC)
	c.restart()
	dir := func(i int) string { return filepath.Join(filepath.Dir(c.events[i]), "data") }
	state := func(i int) string { return filepath.Join(dir(i), "state") }

	remove(t, state(0))
	c.goOn(5)
	if _, err := os.Stat(state(0)); err != nil {
		t.Errorf("5 slots later: %v", err)
	}

	remove(t, state(1))
	if err := os.WriteFile(state(1), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	c.endsByItself(1, state(1)+"/", "not a directory")
	if n := strings.Count(c.peers[1].Err.String(), "cannot use its files"); n != 1 {
		t.Errorf("it warns %d times of one fault", n)
	}
	for _, i := range []int{0, 2} {
		applies(t, c.events[i], newest(t, c.events[i])+5)
	}
	for _, command := range []string{"status", "doctor"} {
		p := clitest.Start(t, t.TempDir(), command, "--data-dir", dir(1))
		if code := p.Ends(t); code != cli.ExitFailed ||
			!strings.Contains(p.Out.String()+p.Err.String(), "not a directory") {
			t.Errorf("%s: exit %d, %s%s", command, code, &p.Out, &p.Err)
		}
	}

	remove(t, dir(2))
	c.endsByItself(2, dir(2)+": its ledger.log is gone")
	if _, err := os.Stat(state(2)); err == nil {
		t.Error("a folder is made again without what the peer has promised")
	}
}

// remove removes a folder at once: its peer writes to it.
func remove(t *testing.T, path string) {
	t.Helper()
	if err := os.Rename(path, filepath.Join(t.TempDir(), "removed")); err != nil {
		t.Fatal(err)
	}
}

// newest is the newest slot that a peer has applied.
func newest(t *testing.T, events string) (slot uint64) {
	t.Helper()
	for _, e := range lines(t, events) {
		slot = max(slot, e.Slot)
	}
	return slot
}

// endsByItself waits until a peer ends, with all of the texts in what it says.
func (c *crowd) endsByItself(i int, texts ...string) {
	c.t.Helper()
	p := c.peers[i]
	late := time.AfterFunc(time.Minute, func() { _ = p.Process.Kill() })
	defer late.Stop()
	if code := p.Ends(c.t); code != cli.ExitFailed {
		c.t.Fatalf("peer %d: exit %d after a minute", i, code)
	}
	for _, text := range texts {
		if !strings.Contains(p.Err.String(), text) {
			c.t.Errorf("peer %d: nothing of %q in:\n%s", i, text, &p.Err)
		}
	}
}
