//go:build unix

package main

import (
	"bufio"
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
	"github.com/p2pdiloco/p2pdiloco/cmd/p2pdiloco/internal/demo"
	"github.com/p2pdiloco/p2pdiloco/internal/eventlog"
	"github.com/p2pdiloco/p2pdiloco/internal/report"
	"github.com/p2pdiloco/p2pdiloco/internal/swarm"
)

func TestDemo(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	kept, events := filepath.Join(home, "kept"), filepath.Join(home, "events")
	p := clitest.New(t, home, "demo", "--peers", "3", "--inner-steps", "2", "--json", "--events", events, "--keep-dir",
		kept)
	// The demo's own settings from the environment; the rest would break its peers.
	p.Env = append(p.Env, "P2PDILOCO_ROUNDS=2", "P2PDILOCO_DATA="+smallData(t), "P2PDILOCO_TRAINER=none",
		"P2PDILOCO_API=off", "P2PDILOCO_MIN_PEERS=9",
		"P2PDILOCO_BOOTSTRAP=/ip4/127.0.0.1/tcp/9/p2p/12D3KooWEqnTdgqHnkkwarSrJjeMP2ZJiADWLYADaNvUb6SQNyPF",
		"P2PDILOCO_IDENTITY="+home)
	p.Begin(t)
	if code := p.Ends(t); code != cli.ExitOK {
		t.Fatalf("exit %d", code)
	}
	var r demo.Result
	if err := json.Unmarshal(p.Out.Bytes(), &r); err != nil {
		t.Fatalf("stdout is not one JSON document: %v", err)
	}
	if !r.Identical || !r.OK() || r.RunID == "" || r.Params != 139_680 || r.Rounds != 2 || len(r.Peers) != 3 ||
		r.DDPBytes != 2*2*4*139_680*4/3 {
		t.Errorf("got %+v", r)
	}
	for _, q := range r.Peers {
		if q.Exit != 0 || q.StateRoot != r.Peers[0].StateRoot || q.RoundsApplied != 2 || q.BytesSent == 0 ||
			q.PID == 0 {
			t.Errorf("peer %+v", q)
		}
	}
	if len(r.Losses) != 3 || len(r.AloneLosses) != 3 || r.Losses[0] != r.AloneLosses[0] {
		t.Errorf("losses %v, alone %v: they start from the same model", r.Losses, r.AloneLosses)
	}
	if b, err := os.ReadFile(r.LossCurve); err != nil || filepath.Dir(r.LossCurve) != kept ||
		!strings.HasPrefix(string(b), "<svg ") {
		t.Errorf("loss curve %s: %v", r.LossCurve, err)
	}
	checkEvents(t, events, r)
	if again := clitest.Start(t, home, "demo", "--keep-dir", kept); again.Ends(t) != cli.ExitUsage {
		t.Error("a second demo ran in the first one's folder")
	}
}

// checkEvents holds the merged events against the result: every peer started and applied every
// slot, with equal roots.
func checkEvents(t *testing.T, path string, r demo.Result) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	roots, started := map[uint64][]string{}, 0
	for s := bufio.NewScanner(f); s.Scan(); {
		e, err := eventlog.Parse(s.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		switch e.Event {
		case "peer.started":
			started++
			if !slices.ContainsFunc(r.Peers, func(p demo.PeerResult) bool {
				return p.PID == e.PID &&
					p.PeerID == e.PeerID
			}) || e.API == "" {
				t.Errorf("event %s", s.Bytes())
			}
		case "slot.applied":
			roots[e.Slot] = append(roots[e.Slot], e.StateRoot)
		}
	}
	if started != 3 || len(roots[1]) != 3 || len(roots[2]) != 3 {
		t.Errorf("%d peers started, roots %v", started, roots)
	}
	for slot, all := range roots {
		if len(slices.Compact(slices.Sorted(slices.Values(all)))) != 1 {
			t.Errorf("slot %d: roots %v", slot, all)
		}
	}
}

// TestDemoGoesOn kills one of four peers: the others finish with equal roots, and the demo says
// what happened and fails.
func TestDemoGoesOn(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	kept := filepath.Join(home, "kept")
	p := clitest.Start(t, home, "demo", "--peers", "4", "--rounds", "4", "--inner-steps", "1", "--data",
		smallData(t), "--json", "--keep-dir", kept)
	victim := clitest.AwaitEvent(t, filepath.Join(kept, "peer-2.events"), "peer 2's start",
		clitest.Named("peer.started"))
	clitest.AwaitEvent(t, filepath.Join(kept, "peer-2.events"), "peer 2's first slot", clitest.Named("slot.applied"))
	if err := syscall.Kill(victim.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if code := p.Ends(t); code != cli.ExitFailed {
		t.Errorf("exit %d, want %d", code, cli.ExitFailed)
	}
	var r demo.Result
	if err := json.Unmarshal(p.Out.Bytes(), &r); err != nil {
		t.Fatal(err)
	}
	for i, q := range r.Peers {
		if dead := i == 1; dead != (q.Exit != 0) || !dead &&
			(q.RoundsApplied != 4 || q.StateRoot != r.Peers[0].StateRoot) {
			t.Errorf("peer %d: %+v", i+1, q)
		}
	}
	if r.Identical || !strings.Contains(p.Err.String(), "peer 2 (pid") {
		t.Errorf("identical is %v", r.Identical)
	}
}

// TestDemoInterrupted: Ctrl-C ends the demo, and no child outlives it; nor does one if the demo is
// killed. Until then its peers are among those that commands have to choose from.
func TestDemoInterrupted(t *testing.T) {
	t.Parallel()
	for _, signal := range []syscall.Signal{syscall.SIGINT, syscall.SIGKILL} {
		home := t.TempDir()
		kept := filepath.Join(home, "kept")
		p := clitest.Start(t, home, "demo", "--peers", "2", "--rounds", "100", "--inner-steps", "100", "--data",
			smallData(t), "--keep-dir", kept)
		var pids []int
		for _, name := range []string{"peer-1.events", "peer-2.events"} {
			pids = append(pids, clitest.AwaitEvent(t, filepath.Join(kept, name), name,
				clitest.Named("peer.started")).PID)
		}
		clitest.Until(t, "both peers of the demo", func() bool {
			status := clitest.Start(t, home, "status")
			return status.Ends(t) == cli.ExitFailed && strings.Count(status.Err.String(), "--data-dir ") == 2 &&
				strings.Count(status.Err.String(), "(run ") == 2
		})
		if err := p.Process.Signal(signal); err != nil {
			t.Fatal(err)
		}
		if code := p.Ends(t); signal == syscall.SIGINT && code != cli.ExitInterrupted {
			t.Errorf("exit %d, want %d", code, cli.ExitInterrupted)
		}
		for _, pid := range pids {
			clitest.Until(t, "the end of a peer", func() bool { return !clitest.Running(pid) })
		}
	}
}

// TestJoinFromEverywhere takes settings from a flag, the environment, a config file and a spec
// file, each of which also says what a better one overrules.
func TestJoinFromEverywhere(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(home, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("spec.toml", "name = \"spec\"\nrounds = 4\ninner_steps = 4\nstart_peers = 4\ntrim_permille = 4\nmax_weight "+
		"= 4\n")
	write("run.toml", fmt.Sprintf("run = \"file\"\nrounds = 3\ninner_steps = 3\nstart_peers = 3\nspec = "+
		"\"spec.toml\"\npreset = \"lan\"\n"+
		"listen = [\"/ip4/127.0.0.1/tcp/0\"]\ndata = [%q]\nthreads = 0\nidentity = \"for bootstrap\"\n",
		smallData(t)))
	events := filepath.Join(home, "events")
	name := swarm.RunName("test") // nobody else on this network has it
	p := clitest.New(t, home, "join", "--run", name, "--events", events)
	p.Env = append(p.Env, "P2PDILOCO_CONFIG=run.toml", "P2PDILOCO_RUN=environment", "P2PDILOCO_ROUNDS=2",
		"P2PDILOCO_INNER_STEPS=1000000", "P2PDILOCO_STEP_TIME=20ms", "P2PDILOCO_THREADS=1",
		"P2PDILOCO_JSON=true", "P2PDILOCO_LOG_LEVEL=")
	p.Begin(t)
	clitest.AwaitEvent(t, events, "the run's founding", clitest.Named("run.founded"))

	status := clitest.New(t, home, "status")
	// as a peer was given it: it names none
	status.Env = append(status.Env, "P2PDILOCO_JSON=1", "P2PDILOCO_API=127.0.0.1:0")
	if err := status.Run(); err != nil {
		t.Fatal(err, &status.Err)
	}
	var s p2pdiloco.Status
	if err := json.Unmarshal(status.Out.Bytes(), &s); err != nil {
		t.Fatal(err)
	}
	for field, want := range map[string]string{
		"name": name, "rounds": "2", "inner_steps": "1000000",
		"start_peers": "3", "trim_permille": "4", "max_weight": "4",
	} {
		if s.Spec[field] != want {
			t.Errorf("the run has %s = %s, not %s", field, s.Spec[field], want)
		}
	}
	leave(t, p)
	var r report.Peer
	if err := json.Unmarshal(p.Out.Bytes(), &r); err != nil || r.Run != name {
		t.Errorf("report %+v, %v", r, err)
	}
}

// TestJoinStatusLeave founds a run alone, asks for its status, and leaves.
func TestJoinStatusLeave(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	events := filepath.Join(home, "events")
	name := swarm.RunName("test") // nobody else on this network has it
	args := append([]string{
		"join", "--run", name, "--rounds", "100", "--inner-steps", "1000000", "--step-time", "20ms", "--outer", "sgd",
		"--preset", "lan",
		"--data", smallData(t), "--events", events, "--json",
	}, onLoopback...)
	p := clitest.Start(t, home, args...)
	started := clitest.AwaitEvent(t, events, "the start", clitest.Named("peer.started"))
	clitest.AwaitEvent(t, events, "the first loss", clitest.Named("trainer.stats"))
	if started.PID != p.Process.Pid || started.PeerID != started.Peer {
		t.Errorf("started as %+v", started)
	}

	status := clitest.New(t, home, "status", "--json") // finds the peer by its data directory
	if err := status.Run(); err != nil {
		t.Fatal(err, &status.Err)
	}
	var s p2pdiloco.Status
	if err := json.Unmarshal(status.Out.Bytes(), &s); err != nil || s.Run != name ||
		s.Peer.String() != started.PeerID {
		t.Errorf("status %+v, %v", s, err)
	}
	human := clitest.New(t, home, "status", "--api", started.API)
	if err := human.Run(); err != nil || !strings.Contains(human.Out.String(), "no member is late or missing") {
		t.Errorf("status: %v\n%s", err, &human.Out)
	}
	leave(t, p)
	var r report.Peer
	if err := json.Unmarshal(p.Out.Bytes(), &r); err != nil || r.Ended || r.Run != name || r.LossFirst == nil {
		t.Errorf("report %+v, %v", r, err)
	}
	gone := clitest.New(t, home, "status")
	if err := gone.Run(); err == nil || !strings.Contains(gone.Err.String(), "no peer of this user runs here") {
		t.Errorf("after the end, status says %s", &gone.Err)
	}
}
