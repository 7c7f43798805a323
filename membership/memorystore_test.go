package membership

import (
	"bytes"
	"errors"
	"sync"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/internal/disk/powerfs"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	canonical "github.com/p2pdiloco/p2pdiloco/internal/wire"
	"github.com/p2pdiloco/p2pdiloco/membership/chain"
	"github.com/p2pdiloco/p2pdiloco/membership/store"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

var errPowerCut = errors.New("simulated power cut")

// memoryStore is a store on a disk in memory. It survives as long as the value does: Restart stands
// for a process that starts again on the same directory, and only what was saved is there.
type memoryStore struct {
	*store.File
	fs       *powerfs.FS
	run      slot.Root
	unsynced uint64 // seed of what becomes of bytes that are not synced
	mu       struct {
		sync.Mutex
		saves int // left before the power cut, if cut
		cut   bool
	}
}

// newMemoryStore makes an empty store. inc must be unlike that of any other store in the run.
func newMemoryStore(run slot.Root, inc slot.Incarnation) *memoryStore {
	return openMemoryStore(powerfs.New(), run, inc)
}

func openMemoryStore(fs *powerfs.FS, run slot.Root, inc slot.Incarnation) *memoryStore {
	file, err := store.Open(fs, "/run", run, 0, bytes.NewReader(canonical.AppendU64(nil, uint64(inc))), nil)
	if err != nil {
		panic("membership: a store in memory does not open: " + err.Error())
	}
	return &memoryStore{File: file, fs: fs, run: run}
}

// CutAfter lets n more calls of Save succeed; from then on all fail with errPowerCut and save
// nothing.
func (s *memoryStore) CutAfter(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.saves, s.mu.cut = n, true
}

// Restart makes this store fail from now on, as a dead process would, and opens another on a copy
// of what it had saved.
func (s *memoryStore) Restart() *memoryStore {
	s.CutAfter(0)
	return openMemoryStore(s.fs.Reboot(s.unsynced), s.run, 0)
}

// Save implements Store.
func (s *memoryStore) Save(entries []wire.Entry) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.mu.cut && s.mu.saves == 0:
		return errPowerCut
	case s.mu.cut:
		s.mu.saves--
	}
	return s.File.Save(entries)
}

// heldRecords stand for a disk.
type heldRecords []wire.Commit

func (d heldRecords) Record(height uint64) (wire.Commit, error) {
	if height == 0 || height > uint64(len(d)) {
		return wire.Commit{}, errors.New("no such record")
	}
	return d[height-1], nil
}

// machineOn makes a machine of what a disk holds.
func machineOn(cfg Config, saved wire.Saved, disk wire.Records) *Machine {
	on, err := chain.Resume(cfg.Rules, cfg.Pin, disk, saved.Height)
	if err != nil {
		panic(err)
	}
	return NewMachine(cfg, saved, on)
}

// recordsOf reads all records that a store has.
func recordsOf(s Store) (all []wire.Commit) {
	saved, err := s.Load()
	for h := uint64(1); err == nil && h <= saved.Height; h++ {
		c, failed := s.Record(h)
		if failed != nil {
			panic(failed)
		}
		all = append(all, c)
	}
	return all
}

func load(t testing.TB, s Store) wire.Saved {
	t.Helper()
	saved, err := s.Load()
	if err != nil {
		t.Fatal(err)
	}
	return saved
}
