package peers

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/multiformats/go-multiaddr"
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

func TestLongUnseenPeersAreForgotten(t *testing.T) {
	file := filepath.Join(t.TempDir(), "peers.json")
	var peers []remembered
	for _, age := range []time.Duration{time.Hour, 2 * rememberedTerm} {
		id := peerOf(t)
		peers = append(
			peers,
			remembered{
				ID: id, Addrs: []multiaddr.Multiaddr{multiaddr.StringCast("/ip4/127.0.0.1/tcp/1")},
				Seen: time.Now().Add(-age),
			},
		)
	}
	b, err := json.Marshal(peers)
	if err != nil {
		t.Fatal(err)
	}
	noError(t, os.WriteFile(file, b, 0o600))
	n := alone(t, DialConfig{PeersFile: file})
	if got := n.Book.Known(); len(got) != 1 || got[0].ID != peers[0].ID {
		t.Errorf("known are %v, want the first of %v", got, peers)
	}
}

// Whatever the wall clock says when the file is read, the addresses in it are used.
func TestAClockThatJumpsForgetsNobody(t *testing.T) {
	then := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for name, now := range map[string]time.Time{
		"back to 1970": time.Unix(0, 0), "a year back": then.AddDate(-1, 0, 0), "as it was": then,
		"ten years on": then.AddDate(10, 0, 0),
	} {
		peers := []remembered{{Seen: then}, {Seen: then.Add(-time.Hour)}, {Seen: then.Add(-rememberedTerm / 2)}}
		if got := fresh(peers, now); len(got) != len(peers) {
			t.Errorf("%s: %d of %d peers are remembered", name, len(got), len(peers))
		}
		// one was seen while the clock was wrong
		mixed := []remembered{{Seen: then.AddDate(20, 0, 0)}, {Seen: now}}
		if got := fresh(mixed, now); len(got) != 2 {
			t.Errorf("%s: a time ahead of the clock makes the others look old", name)
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
