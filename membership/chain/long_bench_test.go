package chain

import (
	"crypto/rand"
	"runtime"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/internal/disk"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/store"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// longRun is the disk of a member of a run of trust byzantine, of 32 members with seats: 10,000
// records.
func longRun(b *testing.B) (w *signedWorld, dir string) {
	b.Helper()
	w = newSignedWorld(signedRules(true))
	dir = b.TempDir()
	log, err := store.Open(disk.OS, dir, w.rules.Run, 0, rand.Reader, nil)
	if err != nil {
		b.Fatal(err)
	}
	defer log.Close()
	w.trusts, w.disk = true, log
	saved := uint64(0)
	for w.Height() < 10_000 {
		if len(w.peers) < 32 && w.Height()%8 == 0 {
			w.peers = append(w.peers, w.newPeer())
		}
		if w.step(); w.Height()-saved < 100 {
			continue
		}
		var entries []wire.Entry
		for _, k := range w.Above(saved) {
			entries = append(entries, wire.EntryCommit(k))
		}
		if err := log.Save(entries); err != nil {
			b.Fatal(err)
		}
		saved = w.Height()
		w.Release(saved)
	}
	b.Logf("%d records of %d members, %d with seats: %.1f kB each", w.Height(), len(w.Members()), len(w.Electorate()),
		float64(log.Size())/float64(w.Height())/1000)
	return w, dir
}

func opened(b *testing.B, w *signedWorld, dir string) (*store.File, *Chain) {
	b.Helper()
	log, err := store.Open(disk.OS, dir, w.rules.Run, 0, rand.Reader, nil)
	if err != nil {
		b.Fatal(err)
	}
	saved, err := log.Load()
	if err != nil {
		b.Fatal(err)
	}
	c, err := Resume(w.rules, slot.Root{}, log, saved.Height)
	if err != nil || c.TipHash() != w.TipHash() {
		b.Fatal(err)
	}
	return log, c
}

// BenchmarkLongChain is what a start costs of a member that has 10,000 records of 32 members on
// disk, and what a newcomer does that verifies all of them, on one core. It takes half a minute to
// make them.
//
//	go test -run xxx -bench LongChain -benchtime 1x ./membership/chain
func BenchmarkLongChain(b *testing.B) {
	w, dir := longRun(b)
	b.Run("start", func(b *testing.B) {
		for b.Loop() {
			log, c := opened(b, w, dir)
			b.StopTimer()
			_ = log.Close()
			runtime.KeepAlive(c)
			b.StartTimer()
		}
	})
	b.Run("join", func(b *testing.B) {
		log, _ := opened(b, w, dir)
		defer log.Close()
		for b.Loop() {
			n := New(w.rules, slot.Root{})
			for h := uint64(1); h <= w.Height(); h++ {
				k, err := log.Record(h)
				if err == nil {
					err = n.Extend(k, verifyEd25519)
				}
				if err != nil {
					b.Fatal(err)
				}
				n.Release(h)
			}
		}
	})
}
