//go:build unix

package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/cmd/internal/cli"
	"github.com/p2pdiloco/p2pdiloco/cmd/internal/clitest"
	"github.com/p2pdiloco/p2pdiloco/internal/lab"
)

// TestID: the ID that is printed before a peer joins is the one that it has then.
func TestID(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	dir := filepath.Join(home, "data")
	answers(t, home, cli.ExitFailed, "the one that join will use", "id")
	ask := func(want string, args ...string) *clitest.Program {
		p := clitest.Start(t, home, append([]string{"id", "--data-dir", dir}, args...)...)
		p.Exits(t, cli.ExitOK, want)
		return p
	}
	id := strings.TrimSpace(ask("made an identity in " + dir).Out.String())
	var again identity
	second := ask(id, "--json")
	if second.Read(t, &again); !strings.HasPrefix(id, "12D3Koo") || again.Peer.String() != id || again.Made ||
		again.Dir != dir || second.Err.Len() > 0 {
		t.Errorf("first %s, again %+v, %s", id, again, &second.Err)
	}
	p, events := startPeer(t, home, "--run", lab.RunName("test"), "--data-dir", dir)
	if e := clitest.Await(t, events, "peer.started"); e.PeerID != id {
		t.Errorf("joined as %s, not %s", e.PeerID, id)
	}
	ask(id) // while it runs
	leave(t, p)
	write(t, filepath.Join(home, "ledger.log"), "")
	answers(t, home, cli.ExitFailed, "ledger.log but no identity", "id", "--data-dir", home)
}
