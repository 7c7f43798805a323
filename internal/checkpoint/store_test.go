package checkpoint

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/internal/disk"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

func TestSaveAndLoad(t *testing.T) {
	dir := t.TempDir()
	s, _ := testStore(t, dir)
	a, b := save(t, s, 3), save(t, s, 12)
	if err := s.Save(12, 12, b.Root, vectors(12)...); err != nil {
		t.Fatalf("saving again: %v", err)
	}
	s, _ = testStore(t, dir) // as after a restart
	if got := s.List(); !slices.Equal(got, []Checkpoint{b, a}) {
		t.Fatalf("list %v, want %v, %v", got, b, a)
	}
	got := blank()
	if err := s.Load(a, got...); err != nil {
		t.Fatal(err)
	}
	if StateRoot(3, got...) != a.Root {
		t.Fatal("another state was loaded")
	}
	if c, err := s.LoadNewest(nil, got...); err != nil || c != b {
		t.Fatalf("newest is %v, %v", c, err)
	}
	if c, err := s.LoadNewest(func(c Checkpoint) bool { return c.Height < 12 }, got...); err != nil || c != a {
		t.Fatalf("newest accepted is %v, %v", c, err)
	}
	if err := s.Load(Checkpoint{Height: 4}, got...); !errors.Is(err, ErrNotHeld) {
		t.Fatalf("unknown checkpoint: %v", err)
	}
}

func TestStateFileIsTheEncoding(t *testing.T) {
	s, _ := testStore(t, t.TempDir())
	c := save(t, s, 5)
	b, err := os.ReadFile(s.path(c))
	if err != nil || slot.Hash(b) != c.Root || !slices.Equal(b, naive(5, vectors(5))) {
		t.Fatalf("the file is not the state's encoding: %v", err)
	}
}

func TestSaveRefusesAnotherRoot(t *testing.T) {
	dir := t.TempDir()
	s, _ := testStore(t, dir)
	if err := s.Save(1, 1, StateRoot(1, vectors(2)...), vectors(1)...); err == nil {
		t.Fatal("a wrong root was saved")
	}
	if err := s.Save(1, 1, StateRoot(1, []float32{1}), []float32{1}); err == nil {
		t.Fatal("a wrong shape was saved")
	}
	if f := files(t, dir); len(f) != 0 || len(s.List()) != 0 {
		t.Fatalf("left behind: %v", f)
	}
}

func TestCorruptCheckpointIsNamedAndTheOneBeforeUsed(t *testing.T) {
	for name, damage := range map[string]func(path string){
		"header":  func(p string) { flip(t, p, 30) },
		"anchor":  func(p string) { flip(t, p, 5000) },
		"last":    func(p string) { flip(t, p, -1) },
		"torn":    func(p string) { _ = os.Truncate(p, 300_000) },
		"empty":   func(p string) { _ = os.Truncate(p, 0) },
		"too big": func(p string) { _ = os.Truncate(p, testShape.Size()+1) },
	} {
		for _, restart := range []bool{false, true} {
			t.Run(fmt.Sprint(name, restart), func(t *testing.T) {
				dir := t.TempDir()
				s, log := testStore(t, dir)
				a, b := save(t, s, 1), save(t, s, 2)
				path := s.path(b)
				damage(path)
				if restart {
					s, log = testStore(t, dir)
				}
				if c, err := s.LoadNewest(nil, blank()...); err != nil || c != a {
					t.Fatalf("loaded %v, %v; want %v", c, err, a)
				}
				wantIn(t, log.String(), path)
				wantCorrupt(t, &CorruptError{Path: path}, path)
				if got := s.List(); !slices.Equal(got, []Checkpoint{a}) {
					t.Fatalf("still listed: %v", got)
				}
			})
		}
	}
}

func TestLoadNamesTheCorruptFile(t *testing.T) {
	s, _ := testStore(t, t.TempDir())
	c := save(t, s, 1)
	path := s.path(c)
	flip(t, path, 1000)
	wantCorrupt(t, s.Load(c, blank()...), path)
	_, err := s.LoadNewest(nil, blank()...)
	if !errors.Is(err, ErrNotHeld) {
		t.Fatalf("error %v", err)
	}
	save(t, s, 1) // it can be had again
	if err := s.Load(c, blank()...); err != nil {
		t.Fatal(err)
	}
}

func TestOpenRemovesLeftovers(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"tmp-123", "notes.txt", "state-1-abc"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s, _ := testStore(t, dir)
	if got := files(t, dir); !slices.Equal(got, []string{"notes.txt", "state-1-abc"}) {
		t.Fatalf("files %v", got)
	}
	if len(s.List()) != 0 {
		t.Fatal("a foreign file is listed")
	}
}

func TestOpenRefusals(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(file, Config{Shape: testShape, FrameBytes: 1}); err == nil {
		t.Fatal("a file was opened as a directory")
	}
	for _, c := range []Config{
		{Shape: Shape{0, 0}, FrameBytes: 1},
		{Shape: Shape{math.MaxUint64, 0}, FrameBytes: 1},
		{Shape: Shape{1, -1}, FrameBytes: 1},
		{Shape: testShape},
	} {
		if _, err := Open(t.TempDir(), c); err == nil {
			t.Fatalf("opened with %+v", c)
		}
	}
}

// brokenFS makes files that fail in one of their methods, or none at all.
type brokenFS struct {
	disk.FS
	in  string
	err error
}

func (b brokenFS) CreateTemp(dir, pattern string) (disk.File, error) {
	if b.in == "create" {
		return nil, b.err
	}
	f, err := b.FS.CreateTemp(dir, pattern)
	return brokenFile{f, b.in, b.err}, err
}

type brokenFile struct {
	disk.File
	in  string
	err error
}

func (f brokenFile) Write(b []byte) (int, error) {
	if f.in == "write" {
		return 0, f.err
	}
	return f.File.Write(b)
}

func (f brokenFile) WriteAt(b []byte, off int64) (int, error) {
	if f.in == "write" {
		return 0, f.err
	}
	return f.File.WriteAt(b, off)
}

func (f brokenFile) Sync() error {
	if f.in == "sync" {
		return f.err
	}
	return f.File.Sync()
}

func (f brokenFile) Close() error {
	err := f.File.Close()
	if f.in == "close" {
		return f.err
	}
	return err
}

func TestDiskFaultsLeaveOldFilesIntact(t *testing.T) {
	for _, in := range []string{"create", "write", "sync", "close"} {
		for err, advice := range map[error]string{
			syscall.ENOSPC: "free space", os.ErrPermission: "writable",
			io.ErrShortWrite: "cannot write",
		} {
			t.Run(fmt.Sprint(in, err), func(t *testing.T) {
				dir := t.TempDir()
				s, _ := testStore(t, dir)
				a := save(t, s, 1)
				s.folder.fs = brokenFS{disk.OS, in, err}
				v := vectors(2)
				got := s.Save(2, 2, StateRoot(2, v...), v...)
				if !errors.Is(got, err) {
					t.Fatalf("error %v, want %v", got, err)
				}
				wantIn(t, got.Error(), advice)
				wantIn(t, got.Error(), dir)
				gs, data := segments(1)
				if got := s.PutOutcome(2, gs, data); !errors.Is(got, err) {
					t.Fatalf("error %v, want %v", got, err)
				}
				if f := files(t, dir); !slices.Equal(f, []string{a.name()}) {
					t.Fatalf("files %v", f)
				}
				if err := s.Load(a, blank()...); err != nil {
					t.Fatal(err)
				}
			})
		}
	}
}

// A folder that somebody has removed is made again, and what was in it is not held any more. The
// data directory around it is not made again.
func TestAFolderThatIsRemovedIsMadeAgain(t *testing.T) {
	around := filepath.Join(t.TempDir(), "data")
	dir := filepath.Join(around, "state")
	s, log := testStore(t, dir)
	old := save(t, s, 1)
	gs, data := segments(1)
	if err := s.PutOutcome(2, gs, data); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Segment(gs[0].Root); !errors.Is(err, ErrNotHeld) || s.HasOutcome(2, slot.OutcomeRoot(gs)) {
		t.Errorf("an outcome that was removed: %v", err)
	}
	more, bytes := segments(2)
	if err := s.PutOutcome(3, more, bytes); err != nil {
		t.Fatal(err)
	}
	if len(s.List()) != 0 || !s.HasOutcome(3, slot.OutcomeRoot(more)) {
		t.Errorf("it holds %v", s.List())
	}
	if save(t, s, 1) != old || s.Load(old, blank()...) != nil {
		t.Error("the state that was removed is not saved again")
	}
	wantIn(t, log.String(), "was removed")
	if err := os.RemoveAll(around); err != nil {
		t.Fatal(err)
	}
	if err := s.PutOutcome(4, gs, data); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without the directory around it: %v", err)
	}
	if _, err := os.Stat(around); err == nil {
		t.Error("the directory around it is made again")
	}
}

func TestPartial(t *testing.T) {
	from, _ := testStore(t, t.TempDir())
	c := save(t, from, 4)
	b := naive(4, vectors(4))
	dir := t.TempDir()
	to, _ := testStore(t, dir)
	p, err := to.Create(Checkpoint{Height: 4, Slot: 4, Root: c.Root})
	if err != nil {
		t.Fatal(err)
	}
	half := int64(len(b) / 2)
	for _, off := range []int64{half, 0} {
		if _, err := p.WriteAt(b[off:off+half], off); err != nil {
			t.Fatal(err)
		}
	}
	if len(to.List()) != 0 {
		t.Fatal("a partial state is listed")
	}
	if got, err := p.Adopt(); err != nil || got != c {
		t.Fatalf("adopted %v, %v", got, err)
	}
	if err := to.Load(c, blank()...); err != nil {
		t.Fatal(err)
	}
	p, err = to.Create(Checkpoint{Height: 5, Slot: 5, Root: c.Root}) // the slot is not the header's
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.WriteAt(b, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Adopt(); err == nil {
		t.Fatal("adopted a state of another slot")
	}
	if f := files(t, dir); len(f) != 1 {
		t.Fatalf("files %v", f)
	}
}

// The files show which records a peer had: a state the one at its height, an outcome the one below.
// Files that are no whole states and outcomes show nothing.
func TestReached(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	want := func(height uint64) {
		t.Helper()
		if got, err := Reached(disk.OS, dir); got != height || err != nil {
			t.Errorf("%d, %v, want %d", got, err, height)
		}
	}
	want(0)
	s, _ := testStore(t, dir)
	want(0)
	save(t, s, 5)
	gs, data := segments(1)
	for height, reached := range map[uint64]uint64{6: 5, 3: 5} {
		if err := s.PutOutcome(height, gs, data); err != nil {
			t.Fatal(err)
		}
		want(reached)
	}
	if err := s.PutOutcome(8, gs, data); err != nil {
		t.Fatal(err)
	}
	want(7)
	for _, name := range []string{
		fileName(partialPrefix, 20, slot.Root{1}),
		fileName(statePrefix, 20, slot.Root{1}) + corruptSuffix,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want(7)
}
