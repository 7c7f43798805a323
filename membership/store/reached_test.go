package store

import (
	"bytes"
	"crypto/rand"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/internal/disk"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// openAt opens a log where other files show a height, and closes it.
func openAt(dir string, reached uint64) error {
	s, err := openWith(disk.OS, dir, run, reached, rand.Reader, slog.New(slog.DiscardHandler), 1)
	if err != nil {
		return err
	}
	return s.Close()
}

// A log that ends before a record that was acknowledged is refused, wherever it was cut, and
// nothing is changed in it: the peer would go on under its incarnation, without what it said later.
func TestALogCutShortIsRefused(t *testing.T) {
	dir := t.TempDir()
	s, script := open(t, dir), newLedgerScript()
	var ends []int64 // of the log with so many records
	for i := range byte(4) {
		ends = append(ends, s.end())
		save(t, s, []wire.Entry{script.commit(i)}, []wire.Entry{script.promise(1), script.vote(1, 9)})
	}
	shut(t, s)
	path := filepath.Join(dir, logName)
	whole, records := contents(t, path), contents(t, s.mu.records.path)
	for height, end := range ends {
		zeros := append(bytes.Clone(whole[:end]), make([]byte, 99)...)
		for _, cut := range [][]byte{whole[:end], whole[:end+20], zeros} {
			write(t, path, cut)
			err := openAt(dir, 4)
			if !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), "move it away") {
				t.Errorf("%d records of 4: %v", height, err)
			}
			if now, err := os.ReadFile(path); err != nil || !bytes.Equal(now, cut) {
				t.Errorf("%d records of 4: the log was changed, %v", height, err)
			}
			if err := openAt(dir, uint64(height)); err != nil {
				t.Errorf("%d records, and nothing shows more: %v", height, err)
			}
			write(t, s.mu.records.path, records)
		}
	}
	write(t, path, whole)
	if err := openAt(dir, 4); err != nil {
		t.Errorf("the whole log: %v", err)
	}
}

// Files of a chain that was given up are of greater heights than the chain, and so may be those of
// a log that was lost. The log knows of them, compacted or not.
func TestFilesOfAnotherChainAreNoFault(t *testing.T) {
	dir := t.TempDir()
	s, script := open(t, dir), newLedgerScript()
	for i := range byte(5) {
		put(t, s, script.commit(i))
	}
	put(t, s, script.rewind(1), script.commit(9))
	shut(t, s)
	for range 3 { // it is compacted
		if err := openAt(dir, 5); err != nil {
			t.Errorf("rewound from 5 to 1: %v", err)
		}
	}
	fresh := t.TempDir()
	for range 3 {
		if err := openAt(fresh, 50); err != nil {
			t.Errorf("a new log beside old files: %v", err)
		}
	}
	if err := openAt(fresh, 51); !errors.Is(err, ErrCorrupt) {
		t.Errorf("and then a newer file: %v", err)
	}
}
