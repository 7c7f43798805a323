package chain

import (
	"crypto/ed25519"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// forksWithoutEnd is a past whose links follow the founding of w's run: n forks that one key signs,
// with lists as long as may be, which no link changes. None is longer than 300 bytes but the first.
func forksWithoutEnd(t *testing.T, w *signedWorld, n int) wire.Past {
	founding := w.Commit(1)
	evil := w.newPeer()
	last := wire.Link{Head: founding.Record.Head(), Certificate: founding.Certificate}
	links := [][]byte{last.Append(nil, slot.Genesis(w.rules.Run))}
	fork := slot.Record{Run: w.rules.Run, Kind: slot.Fork, Height: 3}
	for i := range slot.MaxMembers - 1 {
		listed, absent := slot.PeerID(fmt.Sprintf("\x00%037x", i)), slot.PeerID(fmt.Sprintf("\x01%037x", i))
		fork.Members = append(fork.Members, slot.Member{Peer: listed, Since: 1})
		fork.Absent = append(fork.Absent, slot.Member{Peer: absent, Since: 1, Credit: 1})
	}
	for i := range slot.MaxEvicted {
		fork.Evicted = append(fork.Evicted, slot.PeerID(fmt.Sprintf("\x02%037x", i)))
	}
	fork.Members = append(fork.Members, slot.Member{Peer: evil, Since: 1, Seat: 1})
	for i := range n {
		fork.Height = 3 + 2*uint64(i)
		l := wire.Link{Head: fork.Head()}
		l.Certificate.Height, l.Certificate.Hash = fork.Height, l.Head.Hash()
		data := slot.SignedBytes(slot.TypeFork, fork.Run, evil, 0, l.Certificate.Vote.Append(nil))
		l.Certificate.Signatures = []slot.Signature{{Peer: evil, Sig: ed25519.Sign(w.keys[evil], data)}}
		b := l.Append(nil, last.Head.Record)
		if i > 0 && len(b) > 300 {
			t.Fatalf("a link of %d bytes", len(b))
		}
		links, last = append(links, b), l
	}
	return wire.Past{Floor: 1 << 30, Height: 1<<30 + 1, Links: links, Summary: []byte{1}}
}

// A short link stands for whole lists. Who verifies a past of such links keeps no list for each of
// them, and makes only so many.
func TestShortLinksOfLongLists(t *testing.T) {
	const n = 1000
	w := newSignedWorld(signedRules(false, 64))
	p := forksWithoutEnd(t, w, n)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	checks := 0
	_, err := Open(w.rules, slot.Root{}, p, make([]wire.Commit, 2), func(by slot.PeerID, data, sig []byte) bool {
		if checks++; checks == n {
			runtime.GC()
			runtime.ReadMemStats(&after)
		}
		return verifyEd25519(by, data, sig)
	})
	if err == nil || checks < n {
		t.Fatalf("after %d checks: %v", checks, err)
	}
	if each := (int64(after.HeapAlloc) - int64(before.HeapAlloc)) / n; each > 2000 {
		t.Errorf("each link of less than 300 bytes holds %d bytes", each)
	}
	const most = 100_000
	checks = 0
	verify := func(slot.PeerID, []byte, []byte) bool { checks++; return true }
	_, err = openWithin(w.rules, slot.Root{}, p, make([]wire.Commit, 2), verify, most)
	if err == nil || !strings.Contains(err.Error(), "more than 100000 entries") || checks > most/2000 {
		t.Errorf("after %d checks: %v", checks, err)
	}
}
