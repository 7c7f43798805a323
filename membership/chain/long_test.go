package chain

import (
	"crypto/rand"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/disk"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/testlevel"
	"github.com/p2pdiloco/p2pdiloco/membership/store"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// A run of 8 members with a join and a loss every 20 slots, of which each record changes who votes:
// 1,000 slots, or 10,000 in the nightly run. What a member keeps stays small, and so does what a
// newcomer takes in. The figures are in docs/performance.md.
//
//	P2PDILOCO_TEST=nightly go test ./membership/chain -run TestLongChainStaysSmall -v
func TestLongChainStaysSmall(t *testing.T) {
	for _, byzantine := range []bool{false, true} {
		w := newSignedWorld(signedRules(byzantine, 64))
		l := &longLog{dir: t.TempDir(), t: t}
		l.open(w.rules.Run)
		slots := testlevel.Choose(300, 500, 10_000)
		begun, i := uint64(0), 0
		w.churn(slots, 8, 20, func() {
			l.save(w)
			if i++; i == slots/10 {
				begun = heap()
			}
		})
		grown := heap() - min(heap(), begun)
		packed := wire.PackPast(*w.Past(), w.Above(w.Floor())[:w.Start()+1-w.Floor()])
		taken := len(packed)
		for _, k := range w.Above(w.Start() + 1) {
			taken += len(k.Record.Append(k.Certificate.Append(nil)))
		}
		since := time.Now()
		n, err := opened(w.Chain, slot.Root{})
		took := time.Since(since)
		if err != nil || n.TipHash() != w.TipHash() {
			t.Fatal(err)
		}
		t.Logf("byzantine %v, %d slots, %d records, %d links: memory grew by %d kB, the log had up to %d kB",
			byzantine, slots, w.Height(), w.linked.count, grown>>10, l.most>>10)
		t.Logf("a newcomer takes in %d kB and verifies it in %v", taken>>10, took)
		if grown > 5<<20 || l.most > 4<<20 || taken > 1<<20 {
			t.Error("too much")
		}
		if took > 10*time.Second { // a second on an idle machine
			t.Errorf("a newcomer needs %v", took)
		}
	}
}

func heap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// longLog is the log of a member that prunes its chain, with what it says at each height.
type longLog struct {
	t    *testing.T
	dir  string
	log  *store.File
	at   uint64
	most int64
}

func (l *longLog) open(run slot.Root) {
	var err error
	if l.log, err = store.Open(disk.OS, l.dir, run, 0, rand.Reader, nil); err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(func() { _ = l.log.Close() })
}

func (l *longLog) save(w *signedWorld) {
	var entries []wire.Entry
	for _, k := range w.Above(l.at) {
		q := wire.QC{Hash: k.Certificate.Hash}
		for _, s := range k.Certificate.Signatures {
			q.Haves = append(q.Haves, wire.SignedHave{Peer: s.Peer, Incarnation: 1, Sig: s.Sig})
		}
		entries = append(entries,
			wire.EntryHave{Ref: k.Certificate.Ref, Drafted: wire.Drafted{Record: k.Record}},
			wire.EntryVote{Ref: k.Certificate.Ref, Locked: wire.Locked{QC: q, Record: k.Record}}, wire.EntryCommit(k))
	}
	l.at = w.Height()
	if p, pruned := w.Prune(0); pruned {
		entries = append(entries, wire.EntryPast{Past: p})
	}
	if err := l.log.Save(entries); err != nil {
		l.t.Fatal(err)
	}
	size, err := os.Stat(filepath.Join(l.dir, "ledger.log"))
	if err != nil {
		l.t.Fatal(err)
	}
	l.most = max(l.most, size.Size())
}
