package peers

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/libp2p/go-libp2p/core/peer"
)

func TestBadPeersFileIsDoneWithout(t *testing.T) {
	many, err := json.Marshal(make([]remembered, maxRemembered+1))
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{
		"empty": "", "garbage": "garbage", "too many": string(many), "huge": strings.Repeat(" ", maxPeersFile+1),
		"bad address": `[{"id":"12D3KooWPjceQrSwdWXPyLLeABRXmuqt69Rg3sBYbU1Nft9HyQ6X","addrs":["nowhere"]}]`,
	} {
		file := filepath.Join(t.TempDir(), "peers.json")
		noError(t, os.WriteFile(file, []byte(content), 0o600))
		if _, err := loadPeers(file); err == nil {
			t.Errorf("%s: no error", name)
		}
		if n := alone(t, DialConfig{PeersFile: file}); len(n.Book.Known()) != 0 {
			t.Errorf("%s: peers are remembered", name)
		}
	}
}

// Strangers, however many, do not push the members out of the peers file.
func TestMembersAreRemembered(t *testing.T) {
	n := alone(t, DialConfig{})
	member := peerOf(t)
	n.SetMembers(map[peer.ID]struct{}{member: {}})
	for range maxRemembered + 10 {
		id := peerOf(t)
		n.Book.Note(id)
	}
	n.Book.mu.Lock()
	defer n.Book.mu.Unlock()
	if _, ok := n.Book.mu.peers[member]; !ok || len(n.Book.mu.peers) != maxRemembered {
		t.Errorf("the member is remembered: %v, among %d", ok, len(n.Book.mu.peers))
	}
}

func FuzzParsePeers(f *testing.F) {
	f.Add([]byte(`[{"id":"12D3KooWPjceQrSwdWXPyLLeABRXmuqt69Rg3sBYbU1Nft9HyQ6X",` +
		`"addrs":["/ip4/1.2.3.4/tcp/1"],"seen":"2026-01-01T00:00:00Z"}]`))
	f.Add([]byte("[]"))
	f.Fuzz(func(t *testing.T, b []byte) {
		peers, err := parsePeers(b)
		if err == nil && len(peers) > maxRemembered {
			t.Errorf("%d peers", len(peers))
		}
	})
}
