//go:build unix

package main

import (
	"cmp"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/cmd/internal/cli"
	"github.com/p2pdiloco/p2pdiloco/cmd/internal/clitest"
)

// A bootstrap node prints its addresses, and has the same after a restart: its ID and ports. One
// that is started a second time by mistake is refused. It took other ports, and the file that keeps
// them named those: addresses in tickets and configurations were dead.
func TestBootstrapNode(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	key, addrs := filepath.Join(home, "key"), filepath.Join(home, "addrs")
	args := []string{"bootstrap", "--listen", "/ip4/127.0.0.1/tcp/0", "--addr-file", addrs, "--identity", key}
	said := ""
	for range 2 {
		p := clitest.Start(t, home, args...)
		clitest.Until(t, "its addresses", func() bool { return exists(addrs) })
		answers(t, home, cli.ExitFailed, "in use by another process", args...)
		written, err := os.ReadFile(addrs)
		must(t, err)
		p.Signal(t, syscall.SIGTERM)
		p.Exits(t, cli.ExitOK)
		if said = cmp.Or(said, string(written)); p.Out.String() != said || string(written) != said ||
			!strings.HasPrefix(said, "/ip4/127.0.0.1/tcp/") || !strings.Contains(said, "/p2p/") {
			t.Errorf("printed %q, wrote %q, and %q before", &p.Out, written, said)
		}
		remove(t, addrs)
	}
}
