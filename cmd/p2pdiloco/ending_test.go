//go:build unix

package main

import (
	"encoding/json"
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
	"github.com/p2pdiloco/p2pdiloco/internal/report"
	"github.com/p2pdiloco/p2pdiloco/internal/swarm"
)

// gated is a run of four slots, whose trainers wait after the second until the gate is open. So
// tests have as much time as they take, and need no guess about it.
type gated struct {
	t    *testing.T
	home string
	name string
	data string
	boot string // address to start from; empty for the first peer, which founds the run
}

// gatedPeer is one process of a peer.
type gatedPeer struct {
	*clitest.Program
	dir, events string
}

func newGated(t *testing.T) *gated {
	g := &gated{t: t, home: t.TempDir(), name: swarm.RunName("ending"), data: smallData(t)}
	g.open(2)
	return g
}

func (g *gated) open(slot uint64) {
	g.t.Helper()
	if err := swarm.OpenGate(filepath.Join(g.home, "gate"), slot); err != nil {
		g.t.Fatal(err)
	}
}

// start starts a process of a peer: the first one, or another with what it has on disk.
func (g *gated) start(peer string, args ...string) gatedPeer {
	g.t.Helper()
	p := gatedPeer{dir: filepath.Join(g.home, peer)}
	for life := 1; p.events == "" || exists(p.events); life++ {
		p.events = filepath.Join(g.home, fmt.Sprintf("%s.events.%d", peer, life))
	}
	from := []string{"--bootstrap", g.boot}
	if g.boot == "" {
		from = []string{"--found"}
	}
	p.Program = clitest.Start(g.t, g.home, slices.Concat([]string{
		"join", "--run", g.name, "--preset", "lan", "--trust", "crash", "--rounds", "4", "--inner-steps", "1", "--json",
		"--data", g.data, "--gate", filepath.Join(g.home, "gate"), "--data-dir", p.dir, "--events", p.events,
	}, from, args, tiny, onLoopback)...)
	started := clitest.AwaitEvent(g.t, p.events, peer+"'s start", clitest.Named("peer.started"))
	if g.boot == "" { // two that look for each other at once might found a run each
		clitest.AwaitEvent(g.t, p.events, "the founding", clitest.Named("run.founded"))
		g.boot = started.Addrs[0]
	}
	return p
}

func (p gatedPeer) kill(t *testing.T) {
	t.Helper()
	if err := p.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	p.Ends(t)
}

// goesOnAlone waits until a peer has no quorum, and gives the order to go on without one.
func (p gatedPeer) goesOnAlone(t *testing.T, home string) {
	t.Helper()
	clitest.AwaitEvent(t, p.events, "the loss of its quorum", clitest.Named("run.paused"))
	order := clitest.Start(t, home, "recover", "--yes", "--data-dir", p.dir)
	if code := order.Ends(t); code != cli.ExitOK {
		t.Fatalf("recover: exit %d: %s", code, &order.Err)
	}
}

// says is what status prints about a running peer: the document, and the text for people.
func (p gatedPeer) says(t *testing.T, home string) (s p2pdiloco.Status, text string) {
	t.Helper()
	document := clitest.Start(t, home, "status", "--json", "--data-dir", p.dir)
	people := clitest.Start(t, home, "status", "--data-dir", p.dir)
	if document.Ends(t) != cli.ExitOK || people.Ends(t) != cli.ExitOK {
		t.Fatalf("status: %s%s", &document.Err, &people.Err)
	}
	if err := json.Unmarshal(document.Out.Bytes(), &s); err != nil {
		t.Fatal(err)
	}
	return s, people.Out.String()
}

// ends waits for the end of a process, which must have an exit status, and say in its report how it
// ended.
func (p gatedPeer) ends(t *testing.T, code int, how p2pdiloco.Phase) (r report.Peer) {
	t.Helper()
	got := p.Ends(t)
	if err := json.Unmarshal(p.Out.Bytes(), &r); err != nil {
		t.Fatalf("exit %d, %v: %s", got, err, &p.Err)
	}
	if got != code || r.Status != string(how) || r.Ended != (how == p2pdiloco.PhaseEnded) || r.Slot != 4 {
		t.Errorf("exit %d, and %+v; wanted %d, %s at slot 4", got, r, code, how)
	}
	return r
}

// tellsItsEnd says whether an ended process has said what its last state is, in the events and to
// people: where it is the run's, they may take the model and stop the peer.
func (p gatedPeer) tellsItsEnd(t *testing.T, as string) {
	t.Helper()
	final := clitest.AwaitEvent(t, p.events, "its last state", clitest.Named("run.final"))
	hint := strings.Contains(p.Err.String(), "this peer may be stopped now")
	if final.EndsAs != as || hint != (as == "run") {
		t.Errorf("it ends as %q, wanted %q, and is told that it need not stay: %v", final.EndsAs, as, hint)
	}
}

func (p gatedPeer) interrupt(t *testing.T) {
	t.Helper()
	if err := p.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err) // it has ended by itself
	}
}

// TestABranchHasAnExitStatus: of three members one dies, the others end the run, one of them by
// Ctrl-C while it still serves. The dead one comes back to nobody, and goes on alone to the last
// slot. It says that this is a branch, not that it need not stay. It does not end by itself, and
// has exit status 3 when it is stopped. When another one serves the run's model it ends with that,
// with status 0.
func TestABranchHasAnExitStatus(t *testing.T) {
	t.Parallel()
	g := newGated(t)
	quick := g.start("a", "--start-peers", "3", "--linger", "1s")
	stays := g.start("b", "--linger", "1h")
	away := g.start("c")
	for _, p := range []gatedPeer{quick, stays, away} {
		applies(t, p.events, 2)
	}
	away.kill(t)
	g.open(4)
	want := quick.ends(t, cli.ExitOK, p2pdiloco.PhaseEnded)
	clitest.AwaitEvent(t, stays.events, "its model to be final", clitest.Named("run.final"))
	stays.interrupt(t)
	stays.ends(t, cli.ExitOK, p2pdiloco.PhaseEnded)
	stays.tellsItsEnd(t, "run")

	back := g.start("c", "--linger", "1s")
	back.goesOnAlone(t, g.home)
	clitest.AwaitEvent(t, back.events, "its branch's end", clitest.Named("run.branch_ended"))
	s, text := back.says(t, g.home)
	if s.Phase != p2pdiloco.PhaseEndedBranch || s.Provisional == "" ||
		!strings.Contains(text, "ended_branch (the last slot is applied, on a branch that is not the run") {
		t.Errorf("phase %s, branch %q, and\n%s", s.Phase, s.Provisional, text)
	}
	back.interrupt(t)
	if r := back.ends(t, cli.ExitBranch, p2pdiloco.PhaseEndedBranch); r.StateRoot == want.StateRoot {
		t.Error("the branch has the run's model: the test is about nothing")
	}
	back.tellsItsEnd(t, "branch")

	serving := filepath.Join(g.home, "serving")
	server := clitest.Start(t, g.home, append([]string{
		"join", "--preset", "lan", "--trainer", "none", "--linger", "forever", "--data-dir", quick.dir,
		"--events", serving,
	}, onLoopback...)...)
	g.boot = clitest.AwaitEvent(t, serving, "the server's start", clitest.Named("peer.started")).Addrs[0]
	last := g.start("c", "--linger", "1s")
	if got := last.ends(t, cli.ExitOK, p2pdiloco.PhaseEnded); got.StateRoot != want.StateRoot {
		t.Errorf("it ends with %s, the run with %s", got.StateRoot, want.StateRoot)
	}
	leave(t, server)
}
