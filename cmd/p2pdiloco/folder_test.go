//go:build unix

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco/cmd/internal/cli"
)

// A peer whose folder of checkpoints was removed makes it again and goes on. One that cannot write
// there, or whose whole directory was removed, ends with a sentence, and the others go on: they
// waited for it in every slot, for ever. Before that a fourth one is killed and comes back.
func TestPeersThatLoseTheirFolder(t *testing.T) {
	t.Parallel()
	c := startCrowd(t, 3, []string{"--listen", "/ip4/127.0.0.1/udp/0/quic-v1"}, "--start-peers", "3")
	c.restart()
	state := func(i int) string { return filepath.Join(c.dirs[i], "state") }

	away(t, state(0))
	c.goOn(5)
	if !exists(state(0)) {
		t.Error("5 slots later it is not there")
	}

	away(t, state(1))
	write(t, state(1), "")
	said := c.endsByItself(1, state(1)+"/", "not a directory")
	if n := strings.Count(said, "cannot use its files"); n != 1 {
		t.Errorf("it warns %d times of one fault", n)
	}
	for _, i := range []int{0, 2} {
		applies(t, c.events[i], newest(t, c.events[i])+5)
	}
	for _, command := range []string{"status", "doctor"} {
		answers(t, t.TempDir(), cli.ExitFailed, "not a directory", command, "--data-dir", c.dirs[1])
	}

	away(t, c.dirs[2])
	c.endsByItself(2, c.dirs[2]+": its ledger.log is gone")
	if exists(state(2)) {
		t.Error("a folder is made again without what the peer has promised")
	}
}

// away removes a folder at once: its peer writes to it.
func away(t *testing.T, path string) {
	t.Helper()
	must(t, os.Rename(path, filepath.Join(t.TempDir(), "removed")))
}

// endsByItself waits until a peer ends, with all of the texts in what it says.
func (c *crowd) endsByItself(i int, texts ...string) string {
	c.t.Helper()
	late := time.AfterFunc(time.Minute, func() { _ = c.peers[i].Process.Kill() })
	defer late.Stop()
	return c.peers[i].Exits(c.t, cli.ExitFailed, texts...)
}
