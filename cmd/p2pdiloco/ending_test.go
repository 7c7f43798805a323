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

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/cmd/internal/cli"
	"github.com/p2pdiloco/p2pdiloco/cmd/internal/clitest"
	"github.com/p2pdiloco/p2pdiloco/internal/eventlog"
	"github.com/p2pdiloco/p2pdiloco/internal/lab"
)

// gated is a run whose trainers wait after a slot until the gate is open for more. So tests have as
// much time as they take, and need no guess about it.
type gated struct {
	t          *testing.T
	home, gate string
	common     []string // flags of all
	boot       string   // address to start from; empty for the first peer, which founds the run
}

// gatedPeer is one process of a peer.
type gatedPeer struct {
	*clitest.Program
	dir, events string
}

func newGated(t *testing.T, common ...string) *gated {
	g := &gated{t: t, home: t.TempDir()}
	g.gate = filepath.Join(g.home, "gate")
	g.common = slices.Concat([]string{
		"join", "--preset", "lan", "--json", "--data", smallData(t), "--gate", g.gate,
	}, common, tiny, onLoopback)
	return g
}

func (g *gated) open(slot uint64) {
	g.t.Helper()
	must(g.t, lab.OpenGate(g.gate, slot))
}

// prepare prepares a process of a peer: the first one, or another with what it has on disk.
func (g *gated) prepare(peer string, args ...string) gatedPeer {
	g.t.Helper()
	p := gatedPeer{dir: filepath.Join(g.home, peer)}
	for life := 1; p.events == "" || exists(p.events); life++ {
		p.events = filepath.Join(g.home, fmt.Sprintf("%s.events.%d", peer, life))
	}
	from := []string{"--bootstrap", g.boot}
	if g.boot == "" {
		from = []string{"--found"}
	}
	p.Program = clitest.New(g.t, g.home, slices.Concat(g.common, from, []string{
		"--data-dir", p.dir, "--events", p.events,
	}, args)...)
	return p
}

// begin starts it.
func (g *gated) begin(p gatedPeer) gatedPeer {
	g.t.Helper()
	p.Begin(g.t)
	started := clitest.Await(g.t, p.events, "peer.started")
	if g.boot == "" { // two that look for each other at once might found a run each
		clitest.Await(g.t, p.events, "run.founded")
		g.boot = started.Addrs[0]
	}
	return p
}

// ends waits for the end of a process, which must have an exit status, and say in its report how it
// ended, and in its events and to people what its last state is. Where that is the run's, they may
// take the model and stop the peer.
func (p gatedPeer) ends(t *testing.T, code int, how p2pdiloco.Phase, as string) (r eventlog.Peer) {
	t.Helper()
	said := p.Exits(t, code)
	p.Read(t, &r)
	if r.Status != string(how) || r.Ended != (how == p2pdiloco.PhaseEnded) || r.Slot != 4 {
		t.Errorf("%+v; wanted %s at slot 4", r, how)
	}
	final, hint := clitest.Await(t, p.events, "run.final"), strings.Contains(said, "this peer may be stopped now")
	if final.EndsAs != as || hint != (as == "run") {
		t.Errorf("it ends as %q, wanted %q, and is told that it need not stay: %v", final.EndsAs, as, hint)
	}
	return r
}

// TestABranchHasAnExitStatus: of three members one dies, the others end the run, one of them by
// Ctrl-C while it still serves. The dead one comes back to nobody, and goes on alone to the last
// slot. It says that this is a branch, not that it need not stay, and has exit status 3.
func TestABranchHasAnExitStatus(t *testing.T) {
	t.Parallel()
	g := newGated(t, "--run", lab.RunName("ending"), "--trust", "crash", "--rounds", "4", "--inner-steps", "1")
	g.open(2)
	quick := g.begin(g.prepare("a", "--start-peers", "3", "--linger", "1s"))
	stays, away := g.begin(g.prepare("b", "--linger", "1h")), g.begin(g.prepare("c"))
	for _, p := range []gatedPeer{quick, stays, away} {
		applies(t, p.events, 2)
	}
	away.Signal(t, syscall.SIGKILL)
	away.Ends(t)
	g.open(4)
	want := quick.ends(t, cli.ExitOK, p2pdiloco.PhaseEnded, "run")
	clitest.Await(t, stays.events, "run.final")
	stays.Signal(t, os.Interrupt)
	stays.ends(t, cli.ExitOK, p2pdiloco.PhaseEnded, "run")

	back := g.begin(g.prepare("c", "--linger", "3s"))
	clitest.Await(t, back.events, "run.paused")
	answers(t, g.home, cli.ExitOK, "", "recover", "--yes", "--data-dir", back.dir)
	clitest.Await(t, back.events, "run.final")
	answers(t, g.home, cli.ExitOK, "ended_provisional (the last slot is applied, on a branch that may still end",
		"status", "--data-dir", back.dir)
	r := back.ends(t, cli.ExitProvisional, p2pdiloco.PhaseEndedProvisional, "provisional")
	if r.StateRoot == want.StateRoot {
		t.Error("the branch has the run's model: the test is about nothing")
	}
}
