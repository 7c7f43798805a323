package main

import (
	"os"
	"slices"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/cmd/internal/cli"
	"github.com/p2pdiloco/p2pdiloco/cmd/internal/clitest"
	"github.com/p2pdiloco/p2pdiloco/internal/eventlog"
	"github.com/p2pdiloco/p2pdiloco/internal/lab"
)

// TestLingerForever has a peer without a trainer stay after a run's end. One that comes late gets
// the end's model from it, and ends as the run did.
func TestLingerForever(t *testing.T) {
	t.Parallel()
	name := lab.RunName("test")
	stays, events := startBare(t, t.TempDir(), "--run", name, "--trainer", "none", "--linger", "forever")
	addr, flags := clitest.Await(t, events, "peer.started").Addrs[0], library(t)
	trains := func(more ...string) (r eventlog.Peer) {
		t.Helper()
		p, _ := startBare(t, t.TempDir(), slices.Concat(flags, more, []string{"--run", name, "--bootstrap", addr})...)
		p.Exits(t, cli.ExitOK, "the model of slot 3, the last one, is final", "p2pdiloco export --data-dir ")
		p.Read(t, &r)
		return r
	}
	// rounds of 1.5 s: the other one has the time to join
	want := trains("--rounds", "3", "--inner-steps", "30", "--found")
	if late := trains(); !late.Ended || late.Slot != 3 || late.StateRoot != want.StateRoot {
		t.Errorf("a late peer ended with %+v, want %s", late, want.StateRoot)
	}
	stays.Signal(t, os.Interrupt)
	stays.Exits(t, cli.ExitOK, "this peer stays (linger forever), and serves the model to all that come")
}
