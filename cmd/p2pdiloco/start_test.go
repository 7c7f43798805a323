//go:build unix

package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/cmd/internal/cli"
	"github.com/p2pdiloco/p2pdiloco/cmd/internal/clitest"
	"github.com/p2pdiloco/p2pdiloco/internal/swarm"
	"github.com/p2pdiloco/p2pdiloco/internal/ticket"
)

// TestStart: start founds at once, though no bootstrap address answers, and prints a ticket with
// which another machine joins. Invite --wait, which says what it waits for, prints one, too. When
// started again, it goes on with its run, whose ID is in its first and last lines. Beside a peer
// that runs it founds no second run.
func TestStart(t *testing.T) {
	t.Parallel()
	home, name, data := t.TempDir(), swarm.RunName("started"), smallData(t)
	start := func(events string) *clitest.Program {
		return clitest.Start(t, home, slices.Concat([]string{
			"start", name, "--preset", "lan", "--data", data, "--events", filepath.Join(home, events), "--rounds",
			"100000", "--inner-steps", "2", "--bootstrap",
			"/ip4/127.0.0.1/tcp/9/p2p/12D3KooWEqnTdgqHnkkwarSrJjeMP2ZJiADWLYADaNvUb6SQNyPF",
		}, tiny, onLoopback)...)
	}
	wait := clitest.New(t, home, "invite", "--wait", "--ttl", "2d")
	said, err := os.Create(filepath.Join(home, "said"))
	if err != nil {
		t.Fatal(err)
	}
	defer said.Close()
	wait.Stderr = said
	wait.Begin(t)
	says := func(want string) {
		clitest.Until(t, want, func() bool {
			text, _ := os.ReadFile(said.Name())
			return strings.Contains(string(text), want)
		})
	}
	says("waiting: no peer of this user runs here")
	first := start("one")
	founded := clitest.AwaitEvent(t, filepath.Join(home, "one"), "the founding", clitest.Named("run.founded"))
	applies(t, filepath.Join(home, "one"), 1)
	code, text := wait.Ends(t), wait.Out.String()
	if code != cli.ExitOK || strings.Count(text, "\n") != 1 || !strings.HasPrefix(text, ticket.Prefix) {
		t.Fatalf("exit %d, and the ticket is %q", code, text)
	}
	says("it is of no use on other machines")
	guest, events := startPeer(t, t.TempDir(), data, text)
	applies(t, events, 1)
	leave(t, guest)

	second := start("beside")
	if code := second.Ends(t); code != cli.ExitOtherRun || !strings.Contains(second.Err.String(), "peer-1") {
		t.Errorf("beside a peer that runs: exit %d, %s", code, &second.Err)
	}
	if err := first.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code := first.Ends(t); code != cli.ExitOK {
		t.Errorf("exit %d", code)
	}
	out := first.Err.String()
	at := strings.Index(out, ticket.Prefix)
	if at < 0 {
		t.Fatalf("it prints no ticket: %s", out)
	}
	if _, err := ticket.Parse(strings.Fields(out[at:])[0]); err != nil {
		t.Error(err)
	}
	if n := strings.Count(out, founded.RunID[:16]); n < 2 {
		t.Errorf("the run's ID stands in %d lines: %s", n, out)
	}
	again := start("again")
	applies(t, filepath.Join(home, "again"), 1)
	leave(t, again)
	if n := strings.Count(again.Err.String(), founded.RunID[:16]); n != 2 {
		t.Errorf("it does not say at first and at last that it goes on with %s: %s", founded.RunID, &again.Err)
	}
}

func TestStartIsToldOneName(t *testing.T) {
	clitest.Answers(t, newRoot, cli.ExitUsage, []clitest.Case{
		{"start", "which run?"},
		{"start a b", "not [\"a\" \"b\"]"},
		{"start a --run b", "two names were given"},
		{"start p2pdiloco1aaaaaaaa", "whoever has a ticket joins"},
		{"start a@0123456789abcdef", "is a run that exists"},
	})
}
