package store

import (
	"bytes"
	"crypto/rand"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/internal/disk"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// The log stays small however many records there are: votes for what is certified are garbage. All
// records stay, and each is read from its place.
func TestAllRecordsAreKept(t *testing.T) {
	dir := t.TempDir()
	s, script, most := openSmall(t, dir, 20_000), newLedgerScript(), int64(0)
	var saved []wire.Commit
	for i := range 300 {
		commit := script.commit(byte(i))
		put(t, s, commit, script.vote(0, byte(i)), script.promise(3))
		saved, most = append(saved, wire.Commit(commit.(wire.EntryCommit))), max(most, s.end())
	}
	if most > 90_000 {
		t.Errorf("the log had up to %d bytes", most)
	}
	for range 2 {
		for i, want := range saved {
			got, err := s.Record(uint64(i + 1))
			if err != nil || got.Record.Hash() != want.Record.Hash() ||
				got.Certificate.Hash != want.Certificate.Hash || len(got.Certificate.Signatures) != 2 {
				t.Fatalf("record %d: %+v, %v", i+1, got, err)
			}
		}
		if info, err := os.Stat(s.mu.records.path); err != nil || s.Size() != s.end()+info.Size() {
			t.Errorf("%d bytes on disk, the log has %d of them: %v", s.Size(), s.end(), err)
		}
		s = reopen(t, s)
	}
	for _, height := range []uint64{0, 301} {
		if _, err := s.Record(height); err == nil {
			t.Errorf("there is a record at height %d", height)
		}
	}
}

// openRecords opens a log beside these bytes of records, and reads all of them.
func openRecords(t *testing.T, log, records []byte, logger io.Writer) (*File, error) {
	t.Helper()
	dir := t.TempDir()
	write(t, filepath.Join(dir, logName), log)
	if records != nil {
		write(t, filepath.Join(dir, recordsName), records)
	}
	s, err := Open(disk.OS, dir, run, 0, rand.Reader, slog.New(slog.NewTextHandler(logger, nil)))
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { _ = s.Close() })
	for h := uint64(1); h <= load(t, s).Height; h++ {
		if _, err := s.Record(h); err != nil {
			return s, err
		}
	}
	return s, nil
}

// What a crash left behind the last record that the log points at is cut off, with a line; what is
// saved next stays.
func TestTornRecordsAreCutOff(t *testing.T) {
	log, records, _, _ := writtenBoth(t)
	for _, tail := range [][]byte{records[headSize:], records[headSize : headSize+90], make([]byte, 500)} {
		var said bytes.Buffer
		s, err := openRecords(t, log, append(bytes.Clone(records), tail...), &said)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(said.String(), "cut off the end of the ledger's records") ||
			!bytes.Equal(contents(t, s.mu.records.path), records) {
			t.Errorf("%d bytes are not cut off: %s", len(tail), said.String())
		}
		script := newLedgerScript()
		put(t, s, script.rewind(0), script.commit(5))
		s = reopen(t, s)
		if c, err := s.Record(1); err != nil || c.Record.StateRoot != testRoot(5) {
			t.Errorf("after the cut: %+v, %v", c, err)
		}
	}
}

// A changed, lost or missing byte of a record is found when it is read, by its height, and the
// error says what to do. Nothing is changed.
func TestDamagedRecords(t *testing.T) {
	log, records, _, _ := writtenBoth(t)
	last := len(records) - 600 // in the newest of four
	_, others, _, _ := writtenBoth(t)
	for name, bad := range map[string][]byte{
		"missing": nil, "cut": records[:len(records)-1], "without the newest": records[:last], "empty": {},
		"of another log": others,
		"flipped":        append(append(bytes.Clone(records[:last]), records[last]^1), records[last+1:]...),
		"with a hole":    append(append(bytes.Clone(records[:last]), make([]byte, 9)...), records[last+9:]...),
	} {
		s, err := openRecords(t, log, bad, io.Discard)
		if name == "missing" && !errors.Is(err, os.ErrNotExist) || name != "missing" && !errors.Is(err, ErrCorrupt) {
			t.Fatalf("%s: %v", name, err)
		}
		if !strings.Contains(err.Error(), recordsName+" away") {
			t.Errorf("%s: the error does not say what to do: %v", name, err)
		}
		if s != nil && !bytes.Equal(contents(t, s.mu.records.path), bad) {
			t.Errorf("%s: the file is changed", name)
		}
	}
}
