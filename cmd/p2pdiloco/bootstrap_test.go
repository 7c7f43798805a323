//go:build unix

package main

import (
	"bytes"
	"cmp"
	"errors"
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
	said := ""
	for _, p := range []*clitest.Program{first, clitest.New(t, home, args...)} {
		if p != first {
			if err := os.Remove(addrs); err != nil {
				t.Fatal(err)
			}
			p.Begin(t)
			clitest.Until(t, "its addresses", func() bool { return exists(addrs) })
		}
		written, err := os.ReadFile(addrs)
		if err := errors.Join(err, p.Process.Signal(syscall.SIGTERM)); err != nil {
			t.Fatal(err)
		}
		if code := p.Ends(t); code != cli.ExitOK {
			t.Errorf("exit %d", code)
		}
		if said = cmp.Or(said, string(written)); p.Out.String() != said || string(written) != said ||
			!strings.HasPrefix(said, "/ip4/127.0.0.1/tcp/") || !strings.Contains(said, "/p2p/") {
			t.Errorf("printed %q, wrote %q, and %q before", &p.Out, written, said)
		}
	}
}
