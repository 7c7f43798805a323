package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/cmd/internal/cli"
	"github.com/p2pdiloco/p2pdiloco/cmd/internal/clitest"
	"github.com/p2pdiloco/p2pdiloco/internal/report"
	"github.com/p2pdiloco/p2pdiloco/internal/swarm"
)

// TestLingerForever has a peer without a trainer stay after a run's end; then another peer, which
// had ended, is started on its directory and serves. Peers that come late get the end's model from
// each, and end as the run did.
func TestLingerForever(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	name, data := swarm.RunName("test"), smallData(t)
	args := func(events string, more ...string) []string {
		join := []string{"join", "--preset", "lan", "--events", filepath.Join(home, events)}
		return slices.Concat(join, more, onLoopback)
	}
	stays := func(events string, more ...string) (p *clitest.Program, addr string) {
		more = append([]string{"--trainer", "none", "--linger", "forever"}, more...)
		p = clitest.New(t, home, args(events, more...)...)
		out, err := os.Create(filepath.Join(home, events+".out"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = out.Close() })
		p.Stderr = out
		p.Begin(t)
		return p, clitest.AwaitEvent(t, filepath.Join(home, events), "started", clitest.Named("peer.started")).Addrs[0]
	}
	stop := func(p *clitest.Program) {
		t.Helper()
		clitest.Until(t, "that it says that it stays", func() bool {
			said, _ := os.ReadFile(p.Stderr.(*os.File).Name())
			return strings.Contains(string(said),
				"this peer stays (linger forever), and serves the model to all that come")
		})
		if err := p.Process.Signal(os.Interrupt); err != nil {
			t.Fatal(err)
		}
		if code := p.Ends(t); code != cli.ExitOK {
			t.Errorf("stopped, it ends with status %d: %s", code, &p.Err)
		}
	}
	trains := func(events, addr string, more ...string) (r report.Peer) {
		t.Helper()
		p := clitest.New(t, t.TempDir(), args(events, slices.Concat(
			[]string{"--run", name, "--data", data, "--json", "--bootstrap", addr}, more, tiny)...)...)
		p.Begin(t)
		code := p.Ends(t)
		if err := json.Unmarshal(p.Out.Bytes(), &r); err != nil || code != cli.ExitOK || !r.Ended || r.Slot != 3 {
			t.Fatalf("exit %d, %v, %+v: %s", code, err, r, &p.Err)
		}
		for _, want := range []string{"the model of slot 3, the last one, is final", "p2pdiloco export --data-dir "} {
			if !strings.Contains(p.Err.String(), want) {
				t.Errorf("%q is missing: %s", want, &p.Err)
			}
		}
		return r
	}
	dir := filepath.Join(home, "dir-first")
	peer, addr := stays("keeper", "--run", name)
	want := trains("first", addr, "--rounds", "3", "--found", "--data-dir", dir)
	same := func(late report.Peer) {
		t.Helper()
		if late.StateRoot != want.StateRoot {
			t.Errorf("a late peer ended with %+v, want %s", late, want.StateRoot)
		}
	}
	same(trains("late", addr))
	stop(peer)
	peer, addr = stays("other", "--data-dir", dir)
	same(trains("latest", addr))
	stop(peer)
}
