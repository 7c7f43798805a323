//go:build unix

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/cmd/internal/cli"
	"github.com/p2pdiloco/p2pdiloco/cmd/internal/clitest"
	"github.com/p2pdiloco/p2pdiloco/internal/swarm"
)

// TestID: the ID that is printed before a peer joins is the one that it has then.
func TestID(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	dir := filepath.Join(home, "data")
	none := clitest.Start(t, home, "id")
	if none.Ends(t) != cli.ExitFailed || !strings.Contains(none.Err.String(), "the one that join will use") {
		t.Errorf("without a peer: %s", &none.Err)
	}
	ask := func(args ...string) *clitest.Program {
		p := clitest.Start(t, home, append([]string{"id"}, args...)...)
		if code := p.Ends(t); code != cli.ExitOK {
			t.Fatalf("id %v: exit %d, %s", args, code, &p.Err)
		}
		return p
	}
	first := ask("--data-dir", dir)
	id := strings.TrimSpace(first.Out.String())
	if !strings.HasPrefix(id, "12D3Koo") || !strings.Contains(first.Err.String(), "made an identity in "+dir) {
		t.Errorf("made %q, %s", id, &first.Err)
	}
	var again identity
	second := ask("--data-dir", dir, "--json")
	if err := json.Unmarshal(second.Out.Bytes(), &again); err != nil || again.Peer.String() != id || again.Made ||
		again.Dir != dir || second.Err.Len() > 0 {
		t.Errorf("again %+v, %v, %s", again, err, &second.Err)
	}
	p, events := startPeer(t, home, smallData(t), "--run", swarm.RunName("test"), "--data-dir", dir)
	if e := clitest.AwaitEvent(t, events, "the start", clitest.Named("peer.started")); e.PeerID != id {
		t.Errorf("joined as %s, not %s", e.PeerID, id)
	}
	if got := strings.TrimSpace(ask("--data-dir", dir).Out.String()); got != id { // while it runs
		t.Errorf("the running peer is %s, not %s", got, id)
	}
	leave(t, p)
	if err := os.WriteFile(filepath.Join(home, "ledger.log"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	lost := clitest.Start(t, home, "id", "--data-dir", home)
	if lost.Ends(t) != cli.ExitFailed || !strings.Contains(lost.Err.String(), "ledger.log but no identity") {
		t.Errorf("a lost identity: %s", &lost.Err)
	}
}
