package store

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/internal/disk"
	"github.com/p2pdiloco/p2pdiloco/internal/disk/powerfs"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// ledgerScript makes saves that a machine could make: each a list of entries.
type ledgerScript struct {
	chain []slot.Record // chain[0] is R_0
	seq   uint64
}

func newLedgerScript() *ledgerScript {
	return &ledgerScript{chain: []slot.Record{slot.Genesis(run)}}
}

func (s *ledgerScript) next(slotted byte) slot.Record {
	tip := s.chain[len(s.chain)-1]
	c := testRecord()
	c.Run, c.Height, c.Prev, c.StateRoot = run, tip.Height+1, tip.Hash(), testRoot(slotted)
	return c
}

func (s *ledgerScript) ref(ballot uint32) slot.Ref {
	tip := s.chain[len(s.chain)-1]
	return slot.Ref{Height: tip.Height + 1, Prev: tip.Hash(), Ballot: ballot}
}

func (s *ledgerScript) promise(b uint32) wire.Entry { return wire.EntryPromise{Ref: s.ref(b)} }
func (s *ledgerScript) vote(b uint32, n byte) wire.Entry {
	return wire.EntryVote{Ref: s.ref(b), Locked: wire.Locked{QC: wire.QC{Ballot: b}, Record: s.next(n)}}
}

func (s *ledgerScript) fork(b uint32, n byte) wire.Entry {
	return wire.EntryFork{Ref: s.ref(b), Record: s.next(n)}
}

func (s *ledgerScript) offer() wire.Entry { s.seq++; return wire.EntryOffer{Seq: s.seq} }

func (s *ledgerScript) commit(n byte) wire.Entry {
	c := s.next(n)
	cert := testCertificate()
	cert.Vote = slot.Vote{Ref: s.ref(0), Hash: c.Hash()}
	s.chain = append(s.chain, c)
	return wire.EntryCommit{Record: c, Certificate: cert}
}

func (s *ledgerScript) rewind(h int) wire.Entry {
	s.chain = s.chain[:h+1]
	return wire.EntryRewind{Height: uint64(h)}
}

// decided is what a machine keeps of a commit that is given up.
func decided(commit wire.Entry) wire.Entry { return wire.EntryDecided(commit.(wire.EntryCommit)) }

// story has each kind of entry, a change of chain, and words left open at the end.
func (s *ledgerScript) story() [][]wire.Entry {
	mark, first := s.fork(1, 1), s.commit(1)
	early := [][]wire.Entry{
		{mark},
		{first},
		{s.offer()},
		{s.promise(1), s.vote(1, 2)},
		{s.promise(2)},
	}
	second := s.commit(2)
	return append(
		early, []wire.Entry{second, s.offer()}, []wire.Entry{s.vote(0, 3)},
		[]wire.Entry{s.rewind(0), decided(first), decided(second), s.commit(7), s.commit(8)},
		[]wire.Entry{s.promise(1), s.vote(1, 9)}, []wire.Entry{s.promise(3), s.offer()}, []wire.Entry{s.fork(2, 4)},
	)
}

func save(t testing.TB, s *File, saves ...[]wire.Entry) {
	t.Helper()
	for _, entries := range saves {
		if err := s.Save(entries); err != nil {
			t.Fatal(err)
		}
	}
}

// put saves entries together.
func put(t testing.TB, s *File, entries ...wire.Entry) {
	t.Helper()
	save(t, s, entries)
}

func write(t testing.TB, path string, b []byte) {
	t.Helper()
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

func contents(t testing.TB, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func load(t testing.TB, s *File) wire.Saved {
	t.Helper()
	saved, err := s.Load()
	if err != nil {
		t.Fatal(err)
	}
	return saved
}

func open(t testing.TB, dir string) *File {
	t.Helper()
	s, err := Open(disk.OS, dir, run, 0, rand.Reader, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// openSmall opens a log that is compacted above so many bytes.
func openSmall(t testing.TB, dir string, most int64) *File {
	t.Helper()
	s, err := openWith(disk.OS, dir, run, 0, rand.Reader, slog.New(slog.DiscardHandler), most)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func shut(t testing.TB, s *File) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

func reopen(t testing.TB, s *File) *File {
	t.Helper()
	shut(t, s)
	return open(t, filepath.Dir(s.path))
}

// sameButBoot compares what a store gives back, whatever the number of its openings.
func sameButBoot(a, b wire.Saved) bool {
	a.Boot, b.Boot = 0, 0
	return reflect.DeepEqual(a, b)
}

func apply(t *testing.T, s *state, entries []wire.Entry) {
	t.Helper()
	for _, e := range entries {
		if err := s.apply(e); err != nil {
			t.Fatal(err)
		}
	}
}

// Every save survives an opening of the file, and so does it in memory, compacted.
func TestWhatWasSavedIsKept(t *testing.T) {
	file := open(t, t.TempDir())
	inc := load(t, file).Incarnation
	memory := newState(run, inc)
	for i, entries := range newLedgerScript().story() {
		save(t, file, entries)
		file = reopen(t, file)
		apply(t, memory, entries)
		again := newState(run, inc)
		apply(t, again, memory.compacted())
		memory = again
		got, want := load(t, file), memory.saved()
		if got.Incarnation != inc || got.Boot != uint64(i+2) {
			t.Fatalf("save %d: incarnation %d, boot %d", i, got.Incarnation, got.Boot)
		}
		if !sameButBoot(got, want) {
			t.Fatalf("save %d: file has\n%+v\nmemory has\n%+v", i, got, want)
		}
	}
	got := load(t, file)
	for height, c := range map[uint64]byte{1: 7, 2: 8} {
		if k, err := file.Record(height); err != nil || k.Record.StateRoot != testRoot(c) {
			t.Errorf("in the end: record %d is %+v, %v", height, k, err)
		}
	}
	if got.Height != 2 || got.OfferSeq != 3 || got.Promise.Ballot != 3 || got.Vote.Ballot != 1 ||
		got.Vote.Record.StateRoot != testRoot(9) || got.Fork.Ballot != 2 {
		t.Errorf("in the end: %+v", got)
	}
	// at the tip, where the other chain was left, and what was decided there
	if n := len(file.mu.state.pledges); n != 4 {
		t.Errorf("pledges at %d positions are kept", n)
	}
}

// Pledges about one record do not come up at another one of the same height, and are there when the
// chain comes back.
func TestPledgesAreKeptByTheRecordBefore(t *testing.T) {
	script := newLedgerScript()
	s := open(t, t.TempDir())
	first := script.commit(1)
	save(t, s, []wire.Entry{first}, []wire.Entry{script.vote(4, 2)}, []wire.Entry{script.rewind(0), script.commit(3)})
	s = reopen(t, s)
	if v := load(t, s).Vote; v != nil {
		t.Errorf("a vote on the other chain came up: %+v", v)
	}
	put(t, s, script.rewind(0), first)
	if v := load(t, reopen(t, s)).Vote; v == nil || v.Ballot != 4 {
		t.Errorf("back on the first chain its vote is %+v", v)
	}
}

func TestCompaction(t *testing.T) {
	dir, script := t.TempDir(), newLedgerScript()
	s := open(t, dir)
	save(t, s, script.story()...)
	for b := range uint32(50) {
		put(t, s, script.promise(b+4), script.vote(b+4, 5))
	}
	want, before := load(t, s), s.end()
	shut(t, s)
	s = openSmall(t, dir, 1000)
	if got := load(t, s); !sameButBoot(got, want) || got.Boot != want.Boot+1 {
		t.Errorf("compacted to\n%+v\nfrom\n%+v", got, want)
	}
	if s.end() > before/5 {
		t.Errorf("%d bytes became %d", before, s.end())
	}
	put(t, s, script.promise(99))
	if got := load(t, reopen(t, s)); got.Promise.Ballot != 99 || got.Boot != want.Boot+2 {
		t.Errorf("after compaction a save is lost: %+v", got)
	}
}

func (s *File) end() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.end
}

func TestForeignFiles(t *testing.T) {
	dir := t.TempDir()
	b, _, _ := written(t)
	other, _ := appendHead(nil, testRoot(2), 5)
	newer := bytes.Clone(b)
	binary.BigEndian.PutUint32(newer[len(logMagic):], logVersion+1)
	sum := sumOf(newer[:headSize-sumSize])
	copy(newer[headSize-sumSize:], sum[:])
	for name, c := range map[string]struct {
		b    []byte
		want error
	}{
		"text":        {[]byte("dear diary, " + strings.Repeat("nothing happened. ", 20)), ErrForeign},
		"empty":       {nil, ErrForeign},
		"newer":       {newer, ErrForeign},
		"another run": {other, ErrRun},
	} {
		if _, err := openBytes(t, dir, c.b, nil, io.Discard); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
		}
		if kept, err := os.ReadFile(filepath.Join(dir, logName)); err != nil || !bytes.Equal(kept, c.b) {
			t.Errorf("%s: the file was changed", name)
		}
	}
}

func TestDirectoryIsLocked(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	if _, err := Open(disk.OS, dir, run, 0, rand.Reader, nil); !errors.Is(err, disk.ErrLocked) {
		t.Errorf("opened twice: %v", err)
	}
	reopen(t, s)
}

func TestStoreErrorsAreFinal(t *testing.T) {
	script := newLedgerScript()
	s := open(t, t.TempDir())
	s.mu.file.Close() // the disk fails
	if err := s.Save([]wire.Entry{script.offer()}); !errors.Is(err, os.ErrClosed) {
		t.Errorf("save on a failing disk: %v", err)
	}
	if err := s.Save([]wire.Entry{script.offer()}); err == nil {
		t.Error("a save after a failed one succeeded")
	}
	if err := s.Close(); err == nil {
		t.Error("closing hid the fault")
	}
	if err := s.Save(nil); !errors.Is(err, errClosed) {
		t.Errorf("save after close: %v", err)
	}

	s = open(t, t.TempDir())
	script.commit(1)
	if err := s.Save([]wire.Entry{script.commit(2)}); err == nil {
		t.Error("a chain with a hole was saved")
	}
	s = reopen(t, s)
	if got := load(t, s); got.Height != 0 {
		t.Errorf("the refused entry is on disk: %+v", got)
	}
	if _, err := Open(disk.OS, t.TempDir(), run, 0, strings.NewReader("short"), nil); !errors.Is(
		err,
		io.ErrUnexpectedEOF,
	) {
		t.Errorf("no randomness: %v", err)
	}
}

// After a sync that failed once, what a second one says proves nothing.
func TestAFailedSyncIsFinal(t *testing.T) {
	f, script := powerfs.New(), newLedgerScript()
	s, err := Open(f, "/run", testRoot(1), 0, rand.Reader, nil)
	if err != nil {
		t.Fatal(err)
	}
	failed := false
	f.Plan(func(op powerfs.Op) (fault powerfs.Fault) {
		if op.Kind == powerfs.Sync && !failed {
			failed, fault.Err = true, syscall.EIO
		}
		return fault
	})
	for range 2 {
		if err := s.Save([]wire.Entry{script.offer()}); !errors.Is(err, syscall.EIO) {
			t.Errorf("save: %v", err)
		}
	}
	if _, err := s.Load(); !errors.Is(err, syscall.EIO) {
		t.Errorf("load: %v", err)
	}
}

// A vote and its promise, as every height of a small run saves them; each is synced.
func BenchmarkFileSave(b *testing.B) {
	script := newLedgerScript()
	s := open(b, b.TempDir())
	for b.Loop() {
		put(b, s, script.promise(1), script.vote(1, 2))
	}
}
