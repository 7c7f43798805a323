package store

import (
	"errors"
	"os"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// A process that reads beside a running node sees what that has saved so far, and does not change
// its files.
func TestReadBesideAnOpenOne(t *testing.T) {
	dir := t.TempDir()
	if _, err := Read(dir, run); !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("no log: %v", err)
	}
	s := open(t, dir)
	defer s.Close()
	for _, entries := range newLedgerScript().story() {
		save(t, s, entries)
		got, err := Read(dir, run)
		if err != nil {
			t.Fatal(err)
		}
		if want := load(t, s); !sameButBoot(got.Saved, want) || got.Boot != want.Boot {
			t.Fatalf("read %+v\nwant %+v", got, want)
		}
		if c, err := got.Record(got.Height); got.Height > 0 && (err != nil || c.Record.Hash() != got.Tip) {
			t.Fatalf("its newest record is %+v, %v", c, err)
		}
	}
	if _, err := Read(dir, slot.Root{8}); !errors.Is(err, ErrRun) {
		t.Fatalf("another run's: %v", err)
	}
	path := s.path
	before := contents(t, path)
	// as if the last write were under way
	write(t, path, before[:len(before)-3])
	if _, err := Read(dir, run); err != nil {
		t.Fatalf("a torn end: %v", err)
	}
	if after, err := os.ReadFile(path); err != nil || len(after) != len(before)-3 {
		t.Fatalf("the torn end was touched: %d bytes, %v", len(after), err)
	}
}
