//go:build unix

package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/cmd/internal/cli"
	"github.com/p2pdiloco/p2pdiloco/cmd/internal/clitest"
	"github.com/p2pdiloco/p2pdiloco/internal/eventlog"
	"github.com/p2pdiloco/p2pdiloco/internal/lab"
	"github.com/p2pdiloco/p2pdiloco/internal/testutil"
)

func TestDemo(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	kept := filepath.Join(home, "kept")
	p := clitest.New(t, home, "demo", "--peers", "3", "--inner-steps", "2", "--json", "--keep-dir", kept)
	// The demo's own settings from the environment; the rest would break its peers.
	p.Env = append(p.Env, "P2PDILOCO_ROUNDS=2", "P2PDILOCO_DATA="+smallData(t), "P2PDILOCO_TRAINER=none",
		"P2PDILOCO_API=off", "P2PDILOCO_MIN_PEERS=9",
		"P2PDILOCO_BOOTSTRAP=/ip4/127.0.0.1/tcp/9/p2p/12D3KooWEqnTdgqHnkkwarSrJjeMP2ZJiADWLYADaNvUb6SQNyPF",
		"P2PDILOCO_IDENTITY="+home)
	p.Begin(t)
	p.Exits(t, cli.ExitOK)
	var r demoResult
	p.Read(t, &r)
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
	if b, err := os.ReadFile(r.Report); err != nil || filepath.Dir(r.Report) != kept ||
		!strings.Contains(string(b), ">peer-1<") || strings.Count(string(b), "<svg ") < 5 {
		t.Errorf("report %s of %d bytes: %v", r.Report, len(b), err)
	}
	slots, err := eventlog.ReadHistory[p2pdiloco.SlotMetrics](filepath.Join(kept, "peer-1", "metrics.jsonl"))
	if n := len(slots); err != nil || n == 0 || slots[n-1].Slot != 2 || slots[n-1].HeldOutSlot != 2 {
		t.Errorf("the last slot's loss is not in peer 1's metrics: %+v, %v", slots, err)
	}
	checkEvents(t, kept, r)
	if again := clitest.Start(t, home, "demo", "--keep-dir", kept); again.Ends(t) != cli.ExitUsage {
		t.Error("a second demo ran in the first one's folder")
	}
}

// checkEvents holds the events of all peers against the result: every peer started and applied
// every slot, with equal roots.
func checkEvents(t *testing.T, kept string, r demoResult) {
	t.Helper()
	roots, started := map[string]int{}, 0
	var all []eventlog.Line
	for i := range r.Peers {
		all = append(all, lines(t, filepath.Join(kept, fmt.Sprintf("peer-%d.events", i+1)))...)
	}
	for _, e := range all {
		switch e.Event {
		case "peer.started":
			started++
			if !slices.ContainsFunc(r.Peers, func(p demoPeerResult) bool {
				return p.PID == e.PID && p.PeerID == e.PeerID
			}) || e.API == "" {
				t.Errorf("%+v", e)
			}
		case "slot.applied":
			roots[fmt.Sprint(e.Slot, e.StateRoot)]++
		}
	}
	if started != 3 || len(roots) != 2 || slices.Min(slices.Collect(maps.Values(roots))) != 3 {
		t.Errorf("%d peers started, slots and roots %v", started, roots)
	}
}

// TestDemoGoesOn kills one of three peers: the others finish with equal roots, and the demo says
// what happened and fails.
func TestDemoGoesOn(t *testing.T) {
	if !testutil.Nightly() {
		t.Skip("a test for the night: by day TestOK and TestLinesGoOnWithoutTheDead show it in parts")
	}
	t.Parallel()
	home := t.TempDir()
	kept := filepath.Join(home, "kept")
	p := clitest.Start(t, home, "demo", "--peers", "3", "--rounds", "4", "--inner-steps", "1", "--data",
		smallData(t), "--json", "--keep-dir", kept)
	victim := clitest.Await(t, filepath.Join(kept, "peer-2.events"), "peer.started")
	clitest.Await(t, filepath.Join(kept, "peer-2.events"), "slot.applied")
	must(t, syscall.Kill(victim.PID, syscall.SIGKILL))
	p.Exits(t, cli.ExitFailed)
	var r demoResult
	p.Read(t, &r)
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
			pids = append(pids, clitest.Await(t, filepath.Join(kept, name), "peer.started").PID)
		}
		clitest.Until(t, "both peers of the demo", func() bool {
			status := clitest.Start(t, home, "status")
			return status.Ends(t) == cli.ExitFailed && strings.Count(status.Err.String(), "--data-dir ") == 2 &&
				strings.Count(status.Err.String(), "(run ") == 2
		})
		p.Signal(t, signal)
		if code := p.Ends(t); signal == syscall.SIGINT && code != cli.ExitInterrupted {
			t.Errorf("exit %d, want %d", code, cli.ExitInterrupted)
		}
		for _, pid := range pids {
			clitest.Until(t, "the end of a peer", func() bool { return !lab.Alive(strconv.Itoa(pid)) })
		}
	}
}

// TestJoinStatusLeave founds a run alone. Every command finds that peer by itself; its environment
// may be that of a peer. Once it has left, its model and its ID are still found.
func TestJoinStatusLeave(t *testing.T) {
	t.Parallel()
	home, name := t.TempDir(), lab.RunName("test") // nobody else on this network has it
	p, events := startPeer(t, home, "--run", name, "--rounds", "100000", "--inner-steps", "2")
	started := clitest.Await(t, events, "peer.started")
	if started.PID != p.Process.Pid || started.PeerID != started.Peer {
		t.Errorf("started as %+v", started)
	}
	applies(t, events, 2)
	status := clitest.New(t, home, "status")
	// an address that names none
	status.Env = append(status.Env, "P2PDILOCO_JSON=1", "P2PDILOCO_API=127.0.0.1:0")
	if err := status.Run(); err != nil {
		t.Fatal(err, &status.Err)
	}
	var s p2pdiloco.Status
	if status.Read(t, &s); s.Run != name || s.Peer.String() != started.PeerID {
		t.Errorf("status %+v", s)
	}
	model := filepath.Join(home, "model")
	for _, c := range []struct {
		code int
		want string
		args []string
	}{
		{cli.ExitOK, "no member is late or missing", []string{"status", "--api", started.API}},
		{cli.ExitOK, "p2pdiloco1", []string{"invite"}},
		{cli.ExitOK, started.PeerID, []string{"id"}},
		{cli.ExitOK, name, []string{"export", "--out", model}},
		{cli.ExitFailed, "there is nothing to recover from", []string{"recover"}},
		{cli.ExitFailed, "is open and has no admission secret", []string{"rotate"}},
		{cli.ExitUsage, "is no member of run " + name, []string{
			"remove", "12D3KooWGRUKWRYAYXPn1hTvi8N5gRvHQ5x7oWgpGnvEMBLUFxAv",
		}},
	} {
		answers(t, home, c.code, c.want, c.args...)
	}
	leave(t, p)
	var r eventlog.Peer
	if p.Read(t, &r); r.Ended || r.Run != name || r.LossFirst == nil {
		t.Errorf("report %+v", r)
	}
	answers(t, home, cli.ExitFailed, "no peer of this user runs here", "status")
	answers(t, home, cli.ExitOK, started.PeerID, "id")
	answers(t, home, cli.ExitOK, name, "export", "--force", "--out", model)
}
