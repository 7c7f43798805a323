//go:build unix

package main

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/cmd/internal/cli"
	"github.com/p2pdiloco/p2pdiloco/cmd/internal/clitest"
	"github.com/p2pdiloco/p2pdiloco/internal/lab"
	"github.com/p2pdiloco/p2pdiloco/internal/ticket"
)

// TestStart: start founds at once, though no bootstrap address answers, and prints a ticket with
// which another machine joins. Invite --wait, which says what it waits for, prints one, too. When
// started again, it goes on with its run, whose ID is in its first and last lines. Beside a peer
// that runs it founds no second run.
func TestStart(t *testing.T) {
	t.Parallel()
	home, name, data := t.TempDir(), lab.RunName("started"), smallData(t)
	start := func(events string) (*clitest.Program, string) {
		events = filepath.Join(home, events)
		return clitest.Start(t, home, slices.Concat([]string{
			"start", name, "--preset", "lan", "--data", data, "--events", events, "--rounds", "100000",
			"--inner-steps", "2", "--bootstrap",
			"/ip4/127.0.0.1/tcp/9/p2p/12D3KooWEqnTdgqHnkkwarSrJjeMP2ZJiADWLYADaNvUb6SQNyPF",
		}, tiny, onLoopback)...), events
	}
	wait := clitest.New(t, home, "invite", "--wait", "--ttl", "2d")
	said := printing(t, wait)
	wait.Begin(t)
	clitest.Until(t, "that invite waits", func() bool {
		return strings.Contains(said(), "waiting: no peer of this user runs here")
	})
	first, events := start("one")
	id := clitest.Await(t, events, "run.founded").RunID[:16]
	applies(t, events, 1)
	text := wait.Exits(t, cli.ExitOK)
	if strings.Count(text, "\n") != 1 || !strings.HasPrefix(text, ticket.Prefix) ||
		!strings.Contains(said(), "it is of no use on other machines") {
		t.Fatalf("the ticket is %q, and invite says %s", text, said())
	}
	guest, events := startPeer(t, t.TempDir(), text)
	applies(t, events, 1)
	leave(t, guest)

	second, _ := start("beside")
	second.Exits(t, cli.ExitOtherRun, "peer-1")
	leave(t, first)
	out := first.Err.String()
	if _, text, _ := strings.Cut(out, ticket.Prefix); text == "" {
		t.Errorf("it prints no ticket: %s", out)
	} else if _, err := ticket.Parse(ticket.Prefix + strings.Fields(text)[0]); err != nil {
		t.Error(err)
	}
	again, events := start("again")
	applies(t, events, 1)
	leave(t, again)
	for _, p := range []*clitest.Program{first, again} {
		if n := strings.Count(p.Err.String(), id); n < 2 {
			t.Errorf("the run's ID stands in %d lines: %s", n, &p.Err)
		}
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
