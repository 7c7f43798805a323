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
)

// inTheFolder is what stands in a way to start a peer for the folder that Python's DiLoCo chooses.
const inTheFolder = "{python}"

// TestCommandsFindPeersHoweverTheyWereStarted: every command finds the one peer that runs here by
// itself, whoever has started it, with whatever data directory. Once it has ended, its model and
// its ID are still found.
func TestCommandsFindPeersHoweverTheyWereStarted(t *testing.T) {
	t.Parallel()
	data := smallData(t)
	for way, line := range map[string][]string{
		"swarm.sh":            {"join", "--data-dir", "peer", "--run"},
		"Python's DiLoCo":     {"join", "--data-dir", inTheFolder, "--run"},
		"join with a command": {"join"},
	} {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			home, name := t.TempDir(), swarm.RunName("way")
			host, err := os.Hostname()
			if err != nil {
				t.Fatal(err)
			}
			args := slices.Clone(line)
			if i := slices.Index(args, inTheFolder); i >= 0 {
				args[i] = filepath.Join(home, "p2pdiloco", name, "host-"+host, "attach-1")
			}
			events := filepath.Join(home, "events")
			common := append([]string{"--preset", "lan", "--events", events, "--rounds", "100000"}, onLoopback...)
			if way == "join with a command" {
				args = slices.Concat([]string{"join", "--run", name, "--inner-steps", "10"}, common, []string{"--"},
					rankCommand(t, 0, 1, 1, filepath.Join(home, "log")))
			} else {
				args = slices.Concat(args, []string{name, "--data", data, "--inner-steps", "2"}, common, tiny)
			}
			p := clitest.Start(t, home, args...)
			peer := clitest.AwaitEvent(t, events, "its start", clitest.Named("peer.started")).PeerID
			applies(t, events, 5)
			findsIt(t, home, name, peer)
			if err := p.Process.Signal(syscall.SIGINT); err != nil {
				t.Fatal(err)
			}
			p.Ends(t)
			answers(t, home, cli.ExitOK, peer, "id")
			answers(t, home, cli.ExitOK, name, "export", "--out", filepath.Join(home, "after"))
		})
	}
}

// findsIt runs every command that asks a peer.
func findsIt(t *testing.T, home, name, peer string) {
	t.Helper()
	answers(t, home, cli.ExitOK, name, "status")
	answers(t, home, cli.ExitOK, "p2pdiloco1", "invite")
	answers(t, home, cli.ExitOK, "p2pdiloco1", "invite", "--wait")
	answers(t, home, cli.ExitOK, peer, "id")
	answers(t, home, cli.ExitOK, name, "export", "--out", filepath.Join(home, "before"))
	answers(t, home, cli.ExitFailed, "there is nothing to recover from", "recover")
	answers(t, home, cli.ExitFailed, "is open and has no admission secret", "rotate")
	answers(t, home, cli.ExitUsage, "is no member of run "+name, "remove",
		"12D3KooWGRUKWRYAYXPn1hTvi8N5gRvHQ5x7oWgpGnvEMBLUFxAv")
	doctor := clitest.Start(t, home, "doctor")
	if doctor.Ends(t); !strings.Contains(doctor.Err.String(), "asking the peer that runs here") {
		t.Errorf("doctor: %s", &doctor.Err)
	}
}

// answers runs a command without --data-dir, which must end with a status and say what is wanted.
func answers(t *testing.T, home string, code int, want string, args ...string) {
	t.Helper()
	p := clitest.Start(t, home, args...)
	if got := p.Ends(t); got != code || !strings.Contains(p.Out.String()+p.Err.String(), want) {
		t.Errorf("%v: exit %d, want %d and %q: %s%s", args, got, code, want, &p.Out, &p.Err)
	}
}
