//go:build unix

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/cmd/internal/cli"
	"github.com/p2pdiloco/p2pdiloco/cmd/internal/clitest"
)

// A bootstrap node that is started a second time by mistake is refused, and the first one has its
// addresses again after a restart. The second one took other ports, and the file that keeps them
// named those: addresses in tickets and configurations were dead.
func TestASecondBootstrapNodeMovesNoPorts(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	key, addrs := filepath.Join(home, "key"), filepath.Join(home, "addrs")
	ports := key + ".ports"
	args := []string{"bootstrap", "--listen", "/ip4/127.0.0.1/tcp/0", "--addr-file", addrs, "--identity", key}
	first := clitest.Start(t, home, args...)
	clitest.Until(t, "its addresses", func() bool { return exists(addrs) })
	before, err := os.ReadFile(ports)
	if err != nil {
		t.Fatal(err)
	}
	second := clitest.Start(t, home, args...)
	if code := second.Ends(t); code != cli.ExitFailed ||
		!strings.Contains(second.Err.String(), "in use by another process") {
		t.Errorf("exit %d: %s", code, second.Err.String())
	}
	if after, err := os.ReadFile(ports); err != nil || !bytes.Equal(after, before) {
		t.Errorf("it listened on %s, and listens after a restart on %s, %v", before, after, err)
	}
	if err := first.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code := first.Ends(t); code != cli.ExitOK {
		t.Errorf("exit %d", code)
	}
}
