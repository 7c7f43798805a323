//go:build unix

package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/cmd/internal/cli"
	"github.com/p2pdiloco/p2pdiloco/cmd/internal/clitest"
	"github.com/p2pdiloco/p2pdiloco/internal/swarm"
)

// The socket of a peer's API may be named from the folder in which the peer is started. A command
// that is given in another one finds it. It said that the peer has crashed.
func TestARelativeSocketIsFoundFromAnotherFolder(t *testing.T) {
	t.Parallel()
	home, err := os.MkdirTemp("", "api") //nolint:usetesting // a socket's path is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(home) })
	dir := filepath.Join(home, "data")
	clitest.Start(t, home, "join", "--run", swarm.RunName("test"), "--data-dir", dir, "--api", "unix:api.sock",
		"--trainer", "none", "--preset", "lan", "--listen", "/ip4/127.0.0.1/tcp/0")
	clitest.Until(t, "the status", func() bool {
		code, _, _ := clitest.Line(newRoot(), "status", "--data-dir", dir)
		return code == cli.ExitOK
	})
}
