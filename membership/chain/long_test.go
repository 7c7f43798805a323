package chain

import (
	"crypto/rand"
	"os"
	"path/filepath"
	"runtime"
	"slices"
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
// newcomer takes in. The figures are in docs/why/performance.md.
//
//	P2PDILOCO_TEST=nightly go test ./membership/chain -run TestLongChainStaysSmall -v
func TestLongChainStaysSmall(t *testing.T) {
	for _, byzantine := range []bool{false, true} {
		w := newSignedWorld(signedRules(byzantine, 64))
		l := &longLog{dir: t.TempDir(), t: t}
		l.open(w.rules.Run)
		slots := testlevel.Choose(200, 200, 10_000)
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

// A branch is given up in the middle of a run, and the run goes on: what a member keeps is what it
// keeps of the run. The branch has 200 slots, or 2,000 in the nightly run.
func TestLongBranchGivenUpStaysSmall(t *testing.T) {
	for _, byzantine := range []bool{false, true} {
		w := newSignedWorld(signedRules(byzantine, 64))
		l := &longLog{dir: t.TempDir(), t: t}
		l.open(w.rules.Run)
		slots := testlevel.Choose(100, 100, 2000)
		w.churn(slots, 8, 20, func() { l.save(w) })
		parted, before := w.Height(), heap()
		branch := &signedWorld{
			Chain: w.UpTo(parted), keys: w.keys, peers: slices.Clone(w.peers[1:]), made: w.made + 1<<20,
		}
		branch.members()
		l.keeps = true // a provisional branch keeps where it parted
		branch.churn(slots, 8, 20, func() { l.save(branch) })
		given := branch.Height() - parted
		l.rewind(parted)
		l.keeps, branch = false, nil
		if n := len(l.load().Elsewhere); n < int(given)/2 {
			t.Errorf("of %d records given up %d are kept while they may be come back to", given, n)
		}
		w.churn(slots+300, 8, 20, func() { l.save(w) })
		if n := len(l.load().Elsewhere); n > 0 {
			t.Errorf("words at %d places of the branch are kept", n)
		}
		grown := int64(heap()) - int64(before)
		l.reopen(w.rules.Run)
		t.Logf("byzantine %v: %d records given up: memory grew by %d kB, the log has %d kB", byzantine, given,
			grown>>10, l.size()>>10)
		if n := len(l.load().Elsewhere); n > 0 || grown > 5<<20 || l.size() > 4<<20 {
			t.Errorf("too much, and words at %d places after an opening", n)
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

	keeps bool // all records
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
	if !l.keeps {
		if p, pruned := w.Prune(0); pruned {
			entries = append(entries, wire.EntryPast{Past: p})
		}
	}
	if err := l.log.Save(entries); err != nil {
		l.t.Fatal(err)
	}
	l.most = max(l.most, l.size())
}

func (l *longLog) size() int64 {
	l.t.Helper()
	size, err := os.Stat(filepath.Join(l.dir, "ledger.log"))
	if err != nil {
		l.t.Fatal(err)
	}
	return size.Size()
}

func (l *longLog) load() wire.Saved {
	l.t.Helper()
	saved, err := l.log.Load()
	if err != nil {
		l.t.Fatal(err)
	}
	return saved
}

// rewind takes the log back to a height.
func (l *longLog) rewind(height uint64) {
	l.t.Helper()
	if err := l.log.Save([]wire.Entry{wire.EntryRewind{Height: height}}); err != nil {
		l.t.Fatal(err)
	}
	l.at = height
}

func (l *longLog) reopen(run slot.Root) {
	l.t.Helper()
	if err := l.log.Close(); err != nil {
		l.t.Fatal(err)
	}
	l.open(run)
}
