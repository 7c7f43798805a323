package checkpoint

import (
	"bytes"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

func TestOutcomes(t *testing.T) {
	dir := t.TempDir()
	s, _ := testStore(t, dir)
	for seed := range uint64(2) { // two ballots of one height
		put(t, s, 7, seed)
		put(t, s, 7, seed) // does nothing
	}
	if f := files(t, dir); len(f) != 2 {
		t.Fatalf("files %v", f)
	}
	for range 2 {
		for seed := range uint64(2) {
			checkOutcome(t, s, seed)
		}
		s, _ = testStore(t, dir)
	}
	if _, err := s.Outcome(8, slot.Root{}); !errors.Is(err, ErrNotHeld) {
		t.Fatalf("unknown outcome: %v", err)
	}
	if _, err := s.Segment(slot.Root{}); !errors.Is(err, ErrNotHeld) || hasSegment(s, slot.Root{}) {
		t.Fatalf("unknown segment: %v", err)
	}
}

func checkOutcome(t *testing.T, s *Store, seed uint64) {
	t.Helper()
	gs, data := segments(seed)
	o, err := s.Outcome(7, slot.OutcomeRoot(gs))
	if err != nil || !s.HasOutcome(7, slot.OutcomeRoot(gs)) {
		t.Fatal(err)
	}
	if slot.OutcomeRoot(o.Segments) != slot.OutcomeRoot(gs) {
		t.Fatal("other segments")
	}
	for i, g := range gs {
		if b, err := o.Read(i); err != nil || !bytes.Equal(b, data[i].Bytes) {
			t.Fatalf("segment %d: %v", i, err)
		}
		r, err := s.Segment(g.Root)
		if err != nil || !hasSegment(s, g.Root) {
			t.Fatal(err)
		}
		hashes, err := r.Hashes()
		if err != nil {
			t.Fatal(err)
		}
		var whole []byte
		for k := range r.Frames() {
			if whole, err = r.Frame(whole, k, hashes); err != nil {
				t.Fatal(err)
			}
		}
		want := slot.Cut(whole, testFrame).Hashes
		if err != nil || !bytes.Equal(whole, data[i].Bytes) || !slices.Equal(hashes, want) {
			t.Fatalf("frames of segment %d: %v", i, err)
		}
		if _, err := r.Frame(nil, r.Frames(), hashes); err == nil {
			t.Fatal("a frame behind the end")
		}
		part := make([]byte, len(whole)/2)
		at := int64(len(whole) - len(part))
		if _, err := r.ReadAt(part, at); err != nil && err != io.EOF || !bytes.Equal(part, whole[at:]) {
			t.Fatalf("the second half of segment %d: %v %v", i, part, err)
		}
		part = make([]byte, 2)
		if _, err := r.ReadAt(part, r.Size()-1); err == nil {
			t.Fatal("bytes of the next segment")
		}
		_ = r.Close()
	}
}

func TestPutOutcomeRefusesWrongBytes(t *testing.T) {
	dir := t.TempDir()
	s, _ := testStore(t, dir)
	gs, _ := segments(1)
	_, data := segments(2)
	if err := s.PutOutcome(1, gs, data); err == nil {
		t.Fatal("wrong bytes were put")
	}
	if f := files(t, dir); len(f) != 0 {
		t.Fatalf("files %v", f)
	}
}

func TestCorruptOutcome(t *testing.T) {
	for _, off := range []int64{0, 20, 100, -1, -5000} {
		dir := t.TempDir()
		s, _ := testStore(t, dir)
		gs, root := put(t, s, 7, 1)
		path := filepath.Join(dir, files(t, dir)[0])
		flip(t, path, off)
		s, _ = testStore(t, dir)
		var err error
		if o, e := s.Outcome(7, root); e == nil {
			for i := range gs {
				if _, err = o.Read(i); err != nil {
					break
				}
			}
			wantCorrupt(t, err, path)
		}
		if s.HasOutcome(7, root) || hasSegment(s, gs[0].Root) {
			t.Fatalf("still held after byte %d changed", off)
		}
		put(t, s, 7, 1)
		checkOutcome(t, s, 1)
	}
}

func TestCorruptFrameHashesAreNotServed(t *testing.T) {
	dir := t.TempDir()
	s, _ := testStore(t, dir)
	gs, _ := put(t, s, 7, 1)
	path := filepath.Join(dir, files(t, dir)[0])
	last, _ := s.outcomes.find(gs[2].Root)
	flip(t, path, last.file.headerAt-1) // the hash of the last frame
	r, err := s.Segment(gs[2].Root)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	_, err = r.Hashes()
	wantCorrupt(t, err, path)
	if hasSegment(s, gs[2].Root) {
		t.Fatal("still held")
	}
}

func TestPrune(t *testing.T) {
	dir := t.TempDir()
	s, _ := testStore(t, dir)
	var cs []Checkpoint
	states, outcomes := map[uint64]slot.Root{}, map[uint64]slot.Root{}
	for h := uint64(1); h <= 6; h++ {
		cs = append(cs, save(t, s, h))
		_, outcomes[h] = put(t, s, h, h)
		if h != 2 && h != 6 {
			states[h] = cs[h-1].Root
		}
	}
	lost, ballot := put(t, s, 5, 100) // of another ballot
	diverged := vectors(50)
	for h := uint64(4); h <= 5; h++ { // and newer than what is certified
		noError(t, s.Save(h, Count{Slot: h}, StateRoot(Count{Slot: h}, diverged...), diverged...))
	}
	flip(t, s.path(cs[0]), 99)
	wantCorrupt(t, s.Load(cs[0], blank()...), s.path(cs[0]))
	mine := filepath.Join(dir, "mine.corrupt")
	noError(t, os.WriteFile(mine, nil, 0o600))
	err := s.Prune(Policy{Keep: 1, State: known(nil), Outcome: known(nil)})
	if got := files(t, dir); err != nil || len(got) != 15 || slices.Contains(got, cs[0].name()+corruptSuffix) {
		t.Fatalf("without any certificate something else than what was set aside was removed: %v, %v", err, got)
	}
	noError(t, s.Prune(Policy{Keep: 2, State: known(states), Outcome: known(outcomes)}))
	// 6 is not certified yet, 5 and 4 are kept; outcomes after 4.
	if got := s.List(); !slices.Equal(got, []Checkpoint{cs[5], cs[4], cs[3]}) {
		t.Fatalf("kept %v", got)
	}
	for h, root := range outcomes {
		if s.HasOutcome(h, root) != (h > 4) {
			t.Fatalf("outcome %d: %v", h, h <= 4)
		}
	}
	if s.HasOutcome(5, ballot) || hasSegment(s, lost[0].Root) {
		t.Fatal("a ballot's outcome that was not chosen is kept")
	}
	noError(t, s.Close())
	if got := files(t, dir); len(got) != 6 {
		t.Fatalf("files %v", got)
	}
}

// What is pruned is written again, with what is shorter or longer, and nothing of it is left.
func TestPrunedFilesAreWrittenAgain(t *testing.T) {
	dir := t.TempDir()
	s, _ := testStore(t, dir)
	before := map[string]os.FileInfo{}
	for h := uint64(1); h <= 12; h++ {
		c := save(t, s, h)
		frames := slot.Cut(bytes.Repeat([]byte{byte(h)}, int(1+h*7919%20_000)), testFrame)
		gs := []slot.Segment{{
			Range: slot.Range{End: uint64(len(frames.Bytes))}, Contributors: slot.Bitmap{1},
			Root: frames.Root(testFrame),
		}}
		noError(t, s.PutOutcome(h+1, gs, []slot.Frames{frames}))
		noError(t, s.Prune(Policy{
			Keep: 1, State: known(map[uint64]slot.Root{h: c.Root}), Outcome: known(map[uint64]slot.Root{}),
		}))
		info, err := os.Stat(s.path(c))
		noError(t, err)
		again := h > 2 && !os.SameFile(info, before["2 ago"])
		if before["2 ago"], before["1 ago"] = before["1 ago"], info; again {
			t.Errorf("state %d is in a new file", h)
		}
		reopened, err := Open(dir, Config{Shape: testShape, FrameBytes: testFrame, ReadOnly: true})
		noError(t, err)
		noError(t, reopened.Load(c, blank()...))
		o, err := reopened.Outcome(h+1, slot.OutcomeRoot(gs))
		noError(t, err)
		if b, err := o.Read(0); err != nil || !bytes.Equal(b, frames.Bytes) {
			t.Errorf("outcome %d: %v", h+1, err)
		}
	}
}

// An outcome that is put and pruned once more takes no name from a file that is written meanwhile.
func TestSpareFilesHaveNamesOfTheirOwn(t *testing.T) {
	dir := t.TempDir()
	s, _ := testStore(t, dir)
	putAndPrune := func() {
		put(t, s, 1, 1)
		noError(t, s.Prune(Policy{Keep: 1, State: known(nil), Outcome: known(map[uint64]slot.Root{1: {9}})}))
	}
	putAndPrune()
	f, err := s.folder.reuse(fileName(outcomePrefix, 2, slot.Root{}))
	noError(t, err)
	defer f.Close()
	putAndPrune()
	if got := files(t, dir); len(got) != 2 {
		t.Errorf("files %v", got)
	}
}

func FuzzParseOutcome(f *testing.F) {
	gs, _ := segments(1)
	o := &Outcome{frameBytes: testFrame, Segments: gs, sizes: []int64{10_000, 4096, 1}}
	f.Add(o.appendHeader(nil))
	f.Add((&Outcome{frameBytes: math.MaxInt32}).appendHeader(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		o, err := parseOutcome(b)
		if err != nil {
			return
		}
		if !bytes.Equal(o.appendHeader(nil), b) {
			t.Fatal("not canonical")
		}
		if o.end < int64(len(b)) {
			t.Fatalf("ends at %d", o.end)
		}
	})
}
