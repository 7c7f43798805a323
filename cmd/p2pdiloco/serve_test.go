package main

import (
	"encoding/json"
	"errors"
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

// TestServe has a run end, and its data directory served: a peer that comes late gets the model.
func TestServe(t *testing.T) {
	t.Parallel()
	home, late := t.TempDir(), t.TempDir()
	name, dir, data := swarm.RunName("test"), filepath.Join(home, "peer"), smallData(t)
	run := func(home, events string, args ...string) *clitest.Program {
		return clitest.New(t, home, append([]string{
			"join", "--run", name, "--preset", "lan", "--data", data, "--events", filepath.Join(home, events), "--json",
		}, slices.Concat(args, tiny, onLoopback)...)...)
	}
	first := run(home, "first", "--rounds", "2", "--found", "--data-dir", dir)
	first.Begin(t)
	if code := first.Ends(t); code != cli.ExitOK {
		t.Fatalf("exit %d: %s", code, &first.Err)
	}
	said := first.Err.String()
	for _, want := range []string{"the model of slot 2, the last one, is final", "p2pdiloco export --data-dir " + dir} {
		if !strings.Contains(said, want) {
			t.Errorf("%q is missing: %s", want, said)
		}
	}
	events := filepath.Join(home, "serve")
	server := clitest.Start(t, home, append([]string{"serve", dir, "--events", events}, onLoopback...)...)
	started := clitest.AwaitEvent(t, events, "started", clitest.Named("peer.started"))
	second := run(late, "second", "--bootstrap", started.Addrs[0])
	second.Begin(t)
	code := second.Ends(t)
	if err := server.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	served := server.Ends(t)
	if served != cli.ExitOK || !strings.Contains(server.Out.String(), "serving the model of slot 2") {
		t.Errorf("serve: exit %d, %s%s", served, &server.Out, &server.Err)
	}
	var want, got report.Peer
	if err := json.Unmarshal(first.Out.Bytes(), &want); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(second.Out.Bytes(), &got); err != nil || code != cli.ExitOK {
		t.Fatalf("exit %d, %v: %s", code, err, &second.Err)
	}
	if !got.Ended || got.Status != "ended" || got.Slot != 2 || got.StateRoot != want.StateRoot {
		t.Errorf("it ended with %+v, want %s", got, want.StateRoot)
	}
}

func TestServeNeedsARun(t *testing.T) {
	t.Parallel()
	clitest.Answers(t, newRoot, cli.ExitUsage, []clitest.Case{
		{"serve", "p2pdiloco: serve takes one data directory: p2pdiloco serve DIR (0 were given)"},
		{"serve " + t.TempDir(), "is not the data directory of a peer that was in a run"},
	})
}

// TestArchive has a bootstrap node keep a run. After the run's end, which it was there for, a peer
// that comes late gets the model from it, also when the node was restarted meanwhile. When the
// archive cannot go on, the node says so, and is a bootstrap node without it.
func TestArchive(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	name, dir, data := swarm.RunName("test"), filepath.Join(home, "archive"), smallData(t)
	args := append([]string{"bootstrap", "--archive", name, "--archive-dir", dir}, onLoopback...)
	start := func(file string) (*clitest.Program, string) {
		p := clitest.Start(t, home, slices.Concat(args, []string{"--addr-file", filepath.Join(home, file)})...)
		var addrs []byte
		clitest.Until(t, "addresses", func() bool {
			addrs, _ = os.ReadFile(filepath.Join(home, file))
			return len(addrs) > 0
		})
		return p, strings.Fields(string(addrs))[0]
	}
	run := func(home, addr string, args ...string) report.Peer {
		p := clitest.New(t, home, append([]string{
			"join", "--run", name, "--preset", "lan", "--data", data, "--json", "--bootstrap", addr,
		}, slices.Concat(args, tiny, onLoopback)...)...)
		p.Begin(t)
		code := p.Ends(t)
		var r report.Peer
		if err := json.Unmarshal(p.Out.Bytes(), &r); err != nil || code != cli.ExitOK || !r.Ended {
			t.Fatalf("exit %d, %v: %s", code, err, &p.Err)
		}
		return r
	}
	stop := func(p *clitest.Program) {
		if err := p.Process.Signal(os.Interrupt); err != nil {
			t.Fatal(err)
		}
		if code := p.Ends(t); code != cli.ExitOK || !strings.Contains(p.Out.String(), "the last one, is final") {
			t.Errorf("bootstrap: exit %d, %s%s", code, &p.Out, &p.Err)
		}
	}
	node, addr := start("addr1")
	want := run(t.TempDir(), addr, "--rounds", "3", "--linger", "20s")
	stop(node)
	node, addr = start("addr2")
	if got := run(t.TempDir(), addr); got.StateRoot != want.StateRoot || got.Slot != 3 {
		t.Errorf("it ended with %+v, want %s", got, want.StateRoot)
	}
	stop(node)

	ledger := filepath.Join(dir, "ledger.log")
	if err := errors.Join(os.Remove(ledger), os.Mkdir(ledger, 0o700)); err != nil {
		t.Fatal(err)
	}
	out, err := os.Create(filepath.Join(home, "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = out.Close() }()
	node = clitest.New(t, home, args...)
	node.Stdout = out
	node.Begin(t)
	clitest.Until(t, "that the archive has ended", func() bool {
		said, _ := os.ReadFile(out.Name())
		return strings.Contains(string(said), "The bootstrap node goes on without it")
	})
	if err := node.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if code := node.Ends(t); code != cli.ExitOK {
		t.Errorf("without its archive the bootstrap node ends with status %d: %s", code, &node.Err)
	}
}
