//go:build unix

package main

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco/cmd/internal/cli"
	"github.com/p2pdiloco/p2pdiloco/cmd/internal/clitest"
	"github.com/p2pdiloco/p2pdiloco/internal/doctor"
	"github.com/p2pdiloco/p2pdiloco/internal/statedir"
	"github.com/p2pdiloco/p2pdiloco/internal/swarm"
)

// lists runs a command without a data directory until it fails with all of the texts.
func lists(t *testing.T, home, command string, texts ...string) {
	t.Helper()
	said := ""
	defer func() {
		if t.Failed() {
			t.Log(said)
		}
	}()
	clitest.Until(t, strings.Join(texts, " and "), func() bool {
		p := clitest.Start(t, home, command)
		code := p.Ends(t)
		said = p.Err.String()
		for _, text := range texts {
			if !strings.Contains(said, text) {
				return false
			}
		}
		return code == cli.ExitFailed
	})
}

// Peers that wait for their ranks run: status names them, and what each waits for. It said that no
// peer runs and asked to start one, which would have taken the same GPUs. One that is started again
// by mistake is refused, and takes nothing from the first: it took the address of its API away.
func TestAPeerThatWaitsForItsRanksIsListed(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	args := append(boxes(t, 3, 1), "--")
	for range 2 {
		clitest.Start(t, home, append(args, rankCommand(t, 1, 3, 1, filepath.Join(home, "log"))...)...)
		lists(t, home, "status", "the peer waits for its trainer (gathering: ranks 0, 2 of 3 have not attached")
	}
	dirs, err := filepath.Glob(filepath.Join(home, "p2pdiloco", "*", "peer-1"))
	if err != nil || len(dirs) != 1 {
		t.Fatalf("the first one's data directory: %q, %v", dirs, err)
	}
	again := boxes(t, 3, 1, "--data-dir", dirs[0], "--trainer", "attach")
	answers(t, home, cli.ExitFailed, "in use by another process", again...)
	lists(t, home, "invite", "several peers run here; choose one", "peer-1   (the peer waits for its trainer",
		"peer-2   (the peer waits for its trainer")
}

// Peers that hang are listed, too, and all are asked at once: each takes the whole patience of a
// request.
func TestPeersThatHangAreListed(t *testing.T) {
	t.Parallel()
	home, err := os.MkdirTemp("", "hang") //nolint:usetesting // a socket's path is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(home) })
	for _, name := range []string{"peer-1", "peer-2", "peer-3", "peer-4", "peer-5"} {
		hang(t, home, name)
	}
	began := time.Now()
	lists(t, home, "status", "several peers run here", "peer-1   (status API at", "peer-5   (status API at")
	if took := time.Since(began); took > 15*time.Second {
		t.Errorf("it took %v", took)
	}
}

// hang makes the traces of a peer that accepts requests and answers none.
func hang(t *testing.T, home, name string) {
	t.Helper()
	dir := filepath.Join(home, "p2pdiloco", "run", name)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", filepath.Join(dir, "api.sock")) //nolint:noctx // it accepts nothing
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	for name, text := range map[string]string{
		statedir.APIFile: "unix:" + l.Addr().String(), statedir.TokenFile: "token",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// A peer that hangs, perhaps because the disk is full, is what doctor is run for: it says so, and
// examines the machine. It ended with the request that failed, and with --run it said that no peer
// runs here.
func TestDoctorWhereAPeerHangs(t *testing.T) {
	t.Parallel()
	home, err := os.MkdirTemp("", "hang") //nolint:usetesting // a socket's path is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(home) })
	hang(t, home, "peer-1")
	for _, args := range [][]string{
		nil,
		{"--run", swarm.RunName("test"), "--timeout", "1s"},
	} {
		e := examine(t, home, cli.ExitFailed, args...)
		if e.level("peer") != doctor.Fail || e.level("disk") == "" {
			t.Errorf("%q: %+v", args, e.Findings)
		}
	}
}
