package membership

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// ledgerScript makes saves that a machine could make: each a list of entries.
type ledgerScript struct {
	run   slot.Root
	chain []slot.Record // chain[0] is R_0
	seq   uint64
}

func newLedgerScript(run slot.Root) *ledgerScript {
	return &ledgerScript{run: run, chain: []slot.Record{slot.Genesis(run)}}
}

func (s *ledgerScript) next(slotted byte) slot.Record {
	tip := s.chain[len(s.chain)-1]
	c := testRecord()
	c.Run, c.Height, c.Prev, c.StateRoot = s.run, tip.Height+1, tip.Hash(), testRoot(slotted)
	return c
}

func (s *ledgerScript) ref(ballot uint32) slot.Ref {
	tip := s.chain[len(s.chain)-1]
	return slot.Ref{Height: tip.Height + 1, Prev: tip.Hash(), Ballot: ballot}
}

func (s *ledgerScript) promise(b uint32) Entry      { return EntryPromise{s.ref(b)} }
func (s *ledgerScript) vote(b uint32, n byte) Entry { return EntryVote{s.ref(b), s.next(n)} }
func (s *ledgerScript) fork(b uint32, n byte) Entry { return EntryFork{s.ref(b), s.next(n)} }
func (s *ledgerScript) offer() Entry                { s.seq++; return EntryOffer{s.seq} }

func (s *ledgerScript) commit(n byte) Entry {
	c := s.next(n)
	cert := testCertificate()
	cert.Vote = slot.Vote{Ref: s.ref(0), Hash: c.Hash()}
	s.chain = append(s.chain, c)
	return EntryCommit{c, cert}
}

func (s *ledgerScript) rewind(h int) Entry {
	s.chain = s.chain[:h+1]
	return EntryRewind{uint64(h)}
}

// story has each kind of entry, a change of chain, and words left open at the end.
func (s *ledgerScript) story() [][]Entry {
	return [][]Entry{
		{s.fork(1, 1)},
		{s.commit(1)},
		{s.offer()},
		{s.promise(1), s.vote(1, 2)},
		{s.promise(2)},
		{s.commit(2), s.offer()},
		{s.vote(0, 3)},
		{s.rewind(0), s.commit(7), s.commit(8)},
		{s.promise(1), s.vote(1, 9)},
		{s.promise(3), s.offer()},
		{s.fork(2, 4)},
	}
}

func save(t testing.TB, s Store, saves ...[]Entry) {
	t.Helper()
	for _, entries := range saves {
		if err := s.Save(entries); err != nil {
			t.Fatal(err)
		}
	}
}

func load(t testing.TB, s Store) Saved {
	t.Helper()
	saved, err := s.Load()
	if err != nil {
		t.Fatal(err)
	}
	return saved
}

func open(t testing.TB, dir string, run slot.Root) *FileStore {
	t.Helper()
	s, err := OpenStore(dir, run, rand.Reader, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func reopen(t testing.TB, s *FileStore, run slot.Root) *FileStore {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return open(t, filepath.Dir(s.path), run)
}

// sameBut boots: what a store gives back, whatever the number of its openings.
func sameButBoot(a, b Saved) bool {
	a.Boot, b.Boot = 0, 0
	if len(a.Chain) == 0 && len(b.Chain) == 0 {
		a.Chain, b.Chain = nil, nil
	}
	return reflect.DeepEqual(a, b)
}

func TestStoresKeepWhatWasSaved(t *testing.T) {
	run := testRoot(1)
	file, memory := open(t, t.TempDir(), run), NewMemoryStore(run, 5)
	inc := load(t, file).Incarnation
	for i, entries := range newLedgerScript(run).story() {
		save(t, file, entries)
		save(t, memory, entries)
		file, memory = reopen(t, file, run), memory.Restart()
		got, want := load(t, file), load(t, memory)
		if got.Incarnation != inc || got.Boot != uint64(i+2) || want.Boot != got.Boot {
			t.Fatalf("save %d: incarnation %d, boots %d and %d", i, got.Incarnation, got.Boot, want.Boot)
		}
		want.Incarnation = inc
		if !sameButBoot(got, want) {
			t.Fatalf("save %d: file has\n%+v\nmemory has\n%+v", i, got, want)
		}
	}
	got := load(t, file)
	if len(got.Chain) != 2 || got.OfferSeq != 3 || got.Promise.Ballot != 3 || got.Vote.Ballot != 1 || got.Vote.Record.StateRoot != testRoot(9) || got.Fork.Ballot != 2 {
		t.Errorf("in the end: %+v", got)
	}
	if n := len(file.mu.state.words); n != 2 { // at the tip, and where the other chain was left
		t.Errorf("words about %d places are kept", n)
	}
}

// Words about one record do not come up about another at the same height, and are there when the chain comes back.
func TestVotesAreKeptByTheRecordBefore(t *testing.T) {
	run, script := testRoot(1), newLedgerScript(testRoot(1))
	s := open(t, t.TempDir(), run)
	first := script.commit(1)
	save(t, s, []Entry{first}, []Entry{script.vote(4, 2)}, []Entry{script.rewind(0), script.commit(3)})
	s = reopen(t, s, run)
	if v := load(t, s).Vote; v != nil {
		t.Errorf("a vote on the other chain came up: %+v", v)
	}
	save(t, s, []Entry{script.rewind(0), first})
	if v := load(t, reopen(t, s, run)).Vote; v == nil || v.Ballot != 4 {
		t.Errorf("back on the first chain its vote is %+v", v)
	}
}

func TestCompaction(t *testing.T) {
	run, dir, script := testRoot(1), t.TempDir(), newLedgerScript(testRoot(1))
	s := open(t, dir, run)
	save(t, s, script.story()...)
	for b := range uint32(50) {
		save(t, s, []Entry{script.promise(b + 4), script.vote(b+4, 5)})
	}
	want, before := load(t, s), s.end()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s, err := openStore(dir, run, rand.Reader, slog.New(slog.DiscardHandler), 1000)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	if got := load(t, s); !sameButBoot(got, want) || got.Boot != want.Boot+1 {
		t.Errorf("compacted to\n%+v\nfrom\n%+v", got, want)
	}
	if s.end() > before/5 {
		t.Errorf("%d bytes became %d", before, s.end())
	}
	save(t, s, []Entry{script.promise(99)})
	if got := load(t, reopen(t, s, run)); got.Promise.Ballot != 99 || got.Boot != want.Boot+2 {
		t.Errorf("after compaction a save is lost: %+v", got)
	}
}

func (s *FileStore) end() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.end
}

// written is a log and where its frames end.
func written(t testing.TB, run slot.Root) (b []byte, ends []int, states []Saved) {
	t.Helper()
	s := open(t, t.TempDir(), run)
	note := func() { ends, states = append(ends, int(s.end())), append(states, load(t, s)) }
	note()
	for _, entries := range newLedgerScript(run).story() {
		save(t, s, entries)
		note()
	}
	b, err := os.ReadFile(s.path)
	if err != nil {
		t.Fatal(err)
	}
	return b, ends, states
}

// openBytes opens a store on a log of these bytes.
func openBytes(t testing.TB, dir string, b []byte, run slot.Root, log io.Writer) (Saved, error) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, logName), b, 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := OpenStore(dir, run, rand.Reader, slog.New(slog.NewTextHandler(log, nil)))
	if err != nil {
		return Saved{}, err
	}
	defer func() { _ = s.Close() }()
	return load(t, s), nil
}

// readBytes reads a log as openBytes does, without a disk: it says how much of it is whole, and whether a torn end follows.
func readBytes(b []byte, run slot.Root) (saved Saved, whole int, torn bool, err error) {
	s, r := &FileStore{path: logName}, bytes.NewReader(b)
	if err := s.loadHead(r, run); err != nil {
		return saved, 0, false, err
	}
	f := &frameReader{r: r, at: int64(headSize), size: int64(len(b)), sum: s.mu.sum}
	for err == nil {
		err = s.loadFrame(f)
	}
	if torn = errors.Is(err, errTorn); torn || errors.Is(err, io.EOF) {
		err = nil
	}
	return s.mu.state.saved(), int(f.at), torn, err
}

// wholeAt is the state and the end of the last frame that n bytes of a log hold whole.
func wholeAt(n int, ends []int, states []Saved) (want Saved, whole int) {
	want.Incarnation, whole = states[0].Incarnation, headSize // before any save
	for i, end := range ends {
		if end <= n {
			want, whole = states[i], end
		}
	}
	return want, whole
}

func TestTornTailAtEveryByte(t *testing.T) {
	run := testRoot(1)
	b, ends, states := written(t, run)
	for n := headSize; n <= len(b); n++ {
		want, whole := wholeAt(n, ends, states)
		got, end, torn, err := readBytes(b[:n], run)
		if err != nil || end != whole || torn != (n > whole) || !sameButBoot(got, want) {
			t.Fatalf("%d of %d bytes: %v, read to %d of %d\ngot  %+v\nwant %+v", n, len(b), err, end, whole, got, want)
		}
	}
}

// Some file systems grow a file before its bytes arrive: the last frame, or its end, is zeros.
func TestZeroedTail(t *testing.T) {
	run := testRoot(1)
	b, ends, states := written(t, run)
	last := ends[len(ends)-2]
	for n := last; n <= len(b)-sumSize; n++ {
		if last < n && n < last+frameHead {
			continue // a part of a length: no block of a disk is so small
		}
		zeros := append(bytes.Clone(b[:n]), make([]byte, len(b)-n)...)
		got, end, torn, err := readBytes(zeros, run)
		if err != nil || end != last || !torn || !sameButBoot(got, states[len(states)-2]) {
			t.Fatalf("zeros from %d, the last frame starts at %d: %v, read to %d", n, last, err, end)
		}
	}
	middle := bytes.Clone(b)
	clear(middle[ends[1]:ends[2]])
	if _, _, _, err := readBytes(middle, run); !errors.Is(err, ErrStoreCorrupt) {
		t.Errorf("a frame in the middle zeroed: %v", err)
	}
	middle = bytes.Clone(b)
	clear(middle[ends[2]-sumSize : ends[2]])
	if _, _, _, err := readBytes(middle, run); !errors.Is(err, ErrStoreCorrupt) {
		t.Errorf("a checksum in the middle zeroed: %v", err)
	}
}

// On a disk: the torn end is cut off and logged, once, and what is saved next stays.
func TestTornTailIsCutOff(t *testing.T) {
	run := testRoot(1)
	b, ends, states := written(t, run)
	for _, n := range []int{ends[3] + 1, ends[6] - 1, len(b) - sumSize} {
		want, whole := wholeAt(n, ends, states)
		var log bytes.Buffer
		dir := t.TempDir()
		got, err := openBytes(t, dir, b[:n], run, &log)
		if err != nil || !sameButBoot(got, want) {
			t.Fatalf("%d bytes: %v\ngot  %+v\nwant %+v", n, err, got, want)
		}
		if line := fmt.Sprintf("offset=%d bytes=%d", whole, n-whole); !strings.Contains(log.String(), line) {
			t.Errorf("logged %q, not %q", log.String(), line)
		}
		s := open(t, dir, run)
		save(t, s, []Entry{EntryOffer{77}})
		if got := load(t, reopen(t, s, run)); got.OfferSeq != 77 || got.Boot != want.Boot+3 {
			t.Errorf("after the cut: %+v", got)
		}
	}
}

func TestTornHead(t *testing.T) {
	run := testRoot(1)
	b, _, _ := written(t, run)
	for n := range headSize {
		if _, _, _, err := readBytes(b[:n], run); !errors.Is(err, ErrStoreForeign) && !errors.Is(err, ErrStoreCorrupt) {
			t.Fatalf("%d bytes of the head: %v", n, err)
		}
	}
}

// A changed byte is never taken for a torn end: that would lose votes that were given.
func TestFlippedByteAnywhere(t *testing.T) {
	run := testRoot(1)
	b, _, _ := written(t, run)
	for i := range b {
		bad := bytes.Clone(b)
		bad[i] ^= byte(1 + i%255)
		if _, _, _, err := readBytes(bad, run); !errors.Is(err, ErrStoreCorrupt) && !errors.Is(err, ErrStoreForeign) {
			t.Fatalf("byte %d changed: %v", i, err)
		}
	}
	b[len(b)/2] ^= 1
	dir := t.TempDir()
	_, err := openBytes(t, dir, b, run, io.Discard)
	if !errors.Is(err, ErrStoreCorrupt) || !strings.Contains(err.Error(), filepath.Join(dir, logName)+" at byte ") {
		t.Errorf("the error does not say where: %v", err)
	}
	if kept, err := os.ReadFile(filepath.Join(dir, logName)); err != nil || !bytes.Equal(kept, b) {
		t.Error("the damaged file was changed")
	}
}

func TestSplicedLogs(t *testing.T) {
	run, dir := testRoot(1), t.TempDir()
	b, ends, _ := written(t, run)
	other, otherEnds, _ := written(t, run)
	for name, bad := range map[string][]byte{
		"a frame left out":        append(bytes.Clone(b[:ends[1]]), b[ends[2]:]...),
		"a frame twice":           append(bytes.Clone(b[:ends[2]]), b[ends[1]:]...),
		"a frame of another log":  append(bytes.Clone(b[:ends[1]]), other[otherEnds[1]:]...),
		"the end of a compaction": append(bytes.Clone(b), b[headSize:]...),
	} {
		if _, err := openBytes(t, dir, bad, run, io.Discard); !errors.Is(err, ErrStoreCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// What compaction or creation was writing when it died is not read.
func TestKilledBeforeRename(t *testing.T) {
	run, dir := testRoot(1), t.TempDir()
	s := open(t, dir, run)
	save(t, s, newLedgerScript(run).story()...)
	want := load(t, s)
	half, err := os.ReadFile(s.path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, newName), half[:len(half)/2], 0o600); err != nil {
		t.Fatal(err)
	}
	if got := load(t, reopen(t, s, run)); !sameButBoot(got, want) {
		t.Errorf("got %+v", got)
	}
	fresh := t.TempDir()
	if err := os.WriteFile(filepath.Join(fresh, newName), half[:20], 0o600); err != nil {
		t.Fatal(err)
	}
	if got := load(t, open(t, fresh, run)); got.Boot != 1 || len(got.Chain) != 0 {
		t.Errorf("a creation that died left %+v", got)
	}
}

func TestForeignFiles(t *testing.T) {
	run, dir := testRoot(1), t.TempDir()
	b, _, _ := written(t, run)
	newer := bytes.Clone(b)
	binary.BigEndian.PutUint32(newer[len(logMagic):], 2)
	sum := logSum{}.next(newer[:headSize-sumSize])
	copy(newer[headSize-sumSize:], sum[:])
	for name, c := range map[string]struct {
		b    []byte
		want error
	}{
		"text":        {[]byte("dear diary, " + strings.Repeat("nothing happened. ", 20)), ErrStoreForeign},
		"empty":       {nil, ErrStoreForeign},
		"newer":       {newer, ErrStoreForeign},
		"another run": {func() []byte { b, _, _ := written(t, testRoot(2)); return b }(), ErrStoreRun},
	} {
		if _, err := openBytes(t, dir, c.b, run, io.Discard); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
		}
		if kept, err := os.ReadFile(filepath.Join(dir, logName)); err != nil || !bytes.Equal(kept, c.b) {
			t.Errorf("%s: the file was changed", name)
		}
	}
}

func TestDirectoryIsLocked(t *testing.T) {
	run, dir := testRoot(1), t.TempDir()
	s := open(t, dir, run)
	if _, err := OpenStore(dir, run, rand.Reader, nil); !errors.Is(err, ErrStoreLocked) {
		t.Errorf("opened twice: %v", err)
	}
	reopen(t, s, run)
}

func TestStoreErrorsAreFinal(t *testing.T) {
	run, script := testRoot(1), newLedgerScript(testRoot(1))
	s := open(t, t.TempDir(), run)
	s.mu.file.Close() // the disk fails
	if err := s.Save([]Entry{script.offer()}); !errors.Is(err, os.ErrClosed) {
		t.Errorf("save on a failing disk: %v", err)
	}
	if err := s.Save([]Entry{script.offer()}); err == nil {
		t.Error("a save after a failed one succeeded")
	}
	if err := s.Close(); err == nil {
		t.Error("closing hid the fault")
	}
	if err := s.Save(nil); !errors.Is(err, errStoreClosed) {
		t.Errorf("save after close: %v", err)
	}

	s = open(t, t.TempDir(), run)
	script.commit(1)
	if err := s.Save([]Entry{script.commit(2)}); err == nil {
		t.Error("a chain with a hole was saved")
	}
	s = reopen(t, s, run)
	if got := load(t, s); len(got.Chain) != 0 {
		t.Errorf("the refused entry is on disk: %+v", got)
	}
	if _, err := OpenStore(t.TempDir(), run, strings.NewReader("short"), nil); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("no randomness: %v", err)
	}
}

func TestMemoryStorePowerCut(t *testing.T) {
	run, script := testRoot(1), newLedgerScript(testRoot(1))
	s := NewMemoryStore(run, 5)
	s.CutAfter(1)
	save(t, s, []Entry{script.offer()})
	if err := s.Save([]Entry{script.offer()}); !errors.Is(err, ErrPowerCut) {
		t.Errorf("save without power: %v", err)
	}
	next := s.Restart()
	if got := load(t, next); got.OfferSeq != 1 || got.Boot != 2 || got.Incarnation != 5 {
		t.Errorf("after the cut: %+v", got)
	}
	save(t, next, []Entry{script.commit(1)})
	if err := s.Save(nil); !errors.Is(err, ErrPowerCut) {
		t.Error("the dead process saves on")
	}
}

// Any sequence of saves, cut at any point of any write, comes back as one of its beginnings.
func TestStoreProperty(t *testing.T) {
	run := testRoot(1)
	rapid.Check(t, func(t *rapid.T) {
		state, script := newLedgerState(run, 5), newLedgerScript(run)
		log, sum := appendHead(nil, run, 5)
		states, ends := []Saved{state.saved()}, []int{len(log)}
		for range rapid.IntRange(1, 12).Draw(t, "saves") {
			var payload []byte
			for range rapid.IntRange(1, 3).Draw(t, "entries") {
				n, b := rapid.Byte().Draw(t, "n"), rapid.Uint32Range(0, 4).Draw(t, "ballot")
				e := rapid.SampledFrom([]func() Entry{
					func() Entry { return script.promise(b) }, func() Entry { return script.vote(b, n) },
					func() Entry { return script.fork(b, n) }, script.offer, func() Entry { return script.commit(n) },
					func() Entry { return script.rewind(int(n) % len(script.chain)) },
				}).Draw(t, "kind")()
				if err := state.apply(e); err != nil {
					t.Fatal(err)
				}
				payload = appendEntry(payload, e)
			}
			log, sum = appendFrame(log, sum, payload)
			states, ends = append(states, state.saved()), append(ends, len(log))
		}
		cut := rapid.IntRange(headSize, len(log)).Draw(t, "cut")
		s := &FileStore{path: filepath.Join("memory", logName)}
		s.mu.state = newLedgerState(run, 5)
		f := &frameReader{r: bytes.NewReader(log[headSize:cut]), at: int64(headSize), size: int64(cut), sum: logSum(log[headSize-sumSize : headSize])}
		n := 0
		for {
			err := s.loadFrame(f)
			if errors.Is(err, io.EOF) || errors.Is(err, errTorn) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			n++
		}
		if int(f.at) != ends[n] || n+1 < len(ends) && ends[n+1] <= cut {
			t.Fatalf("cut at %d of %v: read up to %d", cut, ends, f.at)
		}
		if !sameButBoot(s.mu.state.saved(), states[n]) {
			t.Fatalf("got  %+v\nwant %+v", s.mu.state.saved(), states[n])
		}
		again := newLedgerState(run, 5)
		for _, e := range s.mu.state.compacted() {
			if err := again.apply(e); err != nil {
				t.Fatal(err)
			}
		}
		if !sameButBoot(again.saved(), states[n]) {
			t.Fatalf("compacted\n%+v\nwant %+v", again.saved(), states[n])
		}
	})
}

// Any bytes behind a sound head are refused, cut off, or a log; never a panic, never much memory.
func FuzzLoad(f *testing.F) {
	run := testRoot(1)
	b, ends, _ := written(f, run)
	head, sum := bytes.Clone(b[:headSize]), logSum(b[headSize-sumSize:headSize])
	f.Add(b[headSize:], false)
	for _, end := range ends {
		f.Add(b[headSize:end], false)
		f.Add(b[headSize+frameHead:end-sumSize], true)
	}
	f.Fuzz(func(t *testing.T, b []byte, framed bool) {
		log := append(bytes.Clone(head), b...)
		if framed { // past the checksums, to the parsers
			log, _ = appendFrame(bytes.Clone(head), sum, b)
		}
		s := &FileStore{path: logName}
		s.mu.state = newLedgerState(run, 5)
		r := &frameReader{r: bytes.NewReader(log[headSize:]), at: int64(headSize), size: int64(len(log)), sum: sum}
		for {
			if err := s.loadFrame(r); err != nil {
				return
			}
		}
	})
}
