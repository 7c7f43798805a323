//go:build unix

package main

import (
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco/bridge/peer"
	"github.com/p2pdiloco/p2pdiloco/cmd/internal/cli"
	"github.com/p2pdiloco/p2pdiloco/cmd/internal/clitest"
	"github.com/p2pdiloco/p2pdiloco/internal/doctor"
	"github.com/p2pdiloco/p2pdiloco/internal/lab"
)

// Peers that wait for their ranks run: status names them, and what each waits for. It said that no
// peer runs and asked to start one, which would have taken the same GPUs. One that is started again
// by mistake is refused, and takes nothing from the first: it took the address of its API away.
func TestAPeerThatWaitsForItsRanksIsListed(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	lists := func(command string, texts ...string) {
		clitest.Until(t, strings.Join(texts, " and "), func() bool {
			p := clitest.Start(t, home, command)
			return p.Ends(t) == cli.ExitFailed && !slices.ContainsFunc(texts, func(text string) bool {
				return !strings.Contains(p.Err.String(), text)
			})
		})
	}
	peer := append(boxes(3, 1, "--"), rankCommand(t, 1, 3, 1, filepath.Join(home, "log"))...)
	for range 2 {
		clitest.Start(t, home, peer...)
		lists("status", "the peer waits for its trainer (gathering: ranks 0, 2 of 3 have not attached")
	}
	dirs, err := filepath.Glob(filepath.Join(home, "p2pdiloco", "*", "peer-1"))
	if err != nil || len(dirs) == 0 {
		t.Fatalf("the first one's data directory: %q, %v", dirs, err)
	}
	answers(t, home, cli.ExitFailed, "in use by another process",
		boxes(3, 1, "--data-dir", dirs[0], "--trainer", "attach")...)
	lists("invite", "several peers run here; choose one", "peer-1   (the peer waits for its trainer",
		"peer-2   (the peer waits for its trainer")
}

// Peers that hang are listed, too, and all are asked at once: each takes the whole patience of a
// request.
func TestPeersThatHangAreListed(t *testing.T) {
	t.Parallel()
	home := hanging(t, "peer-1", "peer-2", "peer-3", "peer-4", "peer-5")
	began := time.Now()
	clitest.Start(t, home, "status").Exits(t, cli.ExitFailed, "several peers run here",
		"peer-1   (status API at", "peer-5   (status API at")
	if took := time.Since(began); took > 15*time.Second {
		t.Errorf("it took %v", took)
	}
}

// hanging makes the traces of peers that accept requests and answer none.
func hanging(t *testing.T, names ...string) (home string) {
	t.Helper()
	home, err := os.MkdirTemp("", "hang") //nolint:usetesting // a socket's path is short
	must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(home) })
	for _, name := range names {
		dir := filepath.Join(home, "p2pdiloco", "run", name)
		must(t, os.MkdirAll(dir, 0o700))
		l, err := net.Listen("unix", filepath.Join(dir, "api.sock")) //nolint:noctx // it accepts nothing
		must(t, err)
		t.Cleanup(func() { _ = l.Close() })
		write(t, filepath.Join(dir, peer.APIFile), "unix:"+l.Addr().String()+"\n")
		write(t, filepath.Join(dir, peer.TokenFile), "token\n")
	}
	return home
}

// A peer that hangs, perhaps because the disk is full, is what doctor is run for: it says so, and
// examines the machine. It ended with the request that failed, and with --run it said that no peer
// runs here.
func TestDoctorWhereAPeerHangs(t *testing.T) {
	t.Parallel()
	e := examine(t, hanging(t, "peer-1"), cli.ExitFailed, "--run", lab.RunName("test"), "--timeout", "1s")
	if e.level("peer") != doctor.Fail || e.level("disk") == "" {
		t.Errorf("%+v", e.Findings)
	}
}
