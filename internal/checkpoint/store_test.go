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
	"strings"
	"syscall"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/internal/disk"
	"github.com/p2pdiloco/p2pdiloco/internal/disk/powerfs"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

func TestSaveAndLoad(t *testing.T) {
	dir := t.TempDir()
	s, _ := testStore(t, dir)
	a, b := save(t, s, 3), save(t, s, 12)
	if err := s.Save(12, Count{Slot: 12}, b.Root, vectors(12)...); err != nil {
		t.Fatalf("saving again: %v", err)
	}
	s, _ = testStore(t, dir) // as after a restart
	if got := s.List(); !slices.Equal(got, []Checkpoint{b, a}) {
		t.Fatalf("list %v, want %v, %v", got, b, a)
	}
	got := blank()
	noError(t, s.Load(a, got...))
	if StateRoot(Count{Slot: 3}, got...) != a.Root {
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

func TestSaveRefusesAnotherRoot(t *testing.T) {
	dir := t.TempDir()
	s, _ := testStore(t, dir)
	if err := s.Save(1, Count{Slot: 1}, StateRoot(Count{Slot: 1}, vectors(2)...), vectors(1)...); err == nil {
		t.Fatal("a wrong root was saved")
	}
	if err := s.Save(1, Count{Slot: 1}, StateRoot(Count{Slot: 1}, []float32{1}), []float32{1}); err == nil {
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
				if !restart && name != "header" {
					wantCorrupt(t, s.Load(b, blank()...), path)
				} else if name == "anchor" {
					_, err := s.AppendSlice(nil, b.Root, 0, GroupBytes)
					wantCorrupt(t, err, path)
				}
				if c, err := s.LoadNewest(nil, blank()...); err != nil || c != a {
					t.Fatalf("loaded %v, %v; want %v", c, err, a)
				}
				wantIn(t, log.String(), path)
				wantCorrupt(t, &CorruptError{Path: path}, path)
				if got := s.List(); !slices.Equal(got, []Checkpoint{a}) {
					t.Fatalf("still listed: %v", got)
				}
				if _, err := s.AppendSlice(nil, b.Root, 0, GroupBytes); !errors.Is(err, ErrNotHeld) {
					t.Fatalf("still served: %v", err)
				}
				save(t, s, 2) // it can be had again
				noError(t, s.Load(b, blank()...))
			})
		}
	}
}

func TestOpenRefusals(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	noError(t, os.WriteFile(file, nil, 0o600))
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

// Whatever fails of the disk, the error says what to do, and older files stay as they are.
func TestDiskFaultsLeaveOldFilesIntact(t *testing.T) {
	for _, kind := range []powerfs.Kind{powerfs.Create, powerfs.Write, powerfs.Sync} {
		for fault, advice := range map[error]string{
			syscall.ENOSPC: "free space", os.ErrPermission: "writable", io.ErrShortWrite: "cannot write",
		} {
			disk := powerfs.New()
			cfg := tortureConfig
			cfg.FS = disk
			s, err := Open(tortureDir, cfg)
			if err != nil {
				t.Fatal(err)
			}
			a, v := stateAt(1)
			noError(t, s.Save(1, Count{Slot: 1}, a.Root, v...))
			disk.Plan(func(op powerfs.Op) (f powerfs.Fault) {
				if op.Kind == kind {
					f.Err = fault
				}
				return f
			})
			gs, data := outcomeAt(1)
			c, v := stateAt(2)
			for _, err := range []error{s.PutOutcome(2, gs, data), s.Save(2, Count{Slot: 2}, c.Root, v...)} {
				if !errors.Is(err, fault) || !strings.Contains(err.Error(), advice) ||
					!strings.Contains(err.Error(), tortureDir) {
					t.Fatalf("%s fails with %v: %v", kind, fault, err)
				}
			}
			left, _ := disk.ReadDir(tortureDir)
			if _, v := stateAt(3); len(left) != 1 || s.Load(a, v...) != nil {
				t.Fatalf("%s fails with %v: left are %v", kind, fault, left)
			}
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
	gs, root := put(t, s, 2, 1)
	noError(t, os.RemoveAll(dir))
	if _, err := s.Segment(gs[0].Root); !errors.Is(err, ErrNotHeld) || s.HasOutcome(2, root) {
		t.Errorf("an outcome that was removed: %v", err)
	}
	if _, more := put(t, s, 3, 2); len(s.List()) != 0 || !s.HasOutcome(3, more) {
		t.Errorf("it holds %v", s.List())
	}
	if save(t, s, 1) != old || s.Load(old, blank()...) != nil {
		t.Error("the state that was removed is not saved again")
	}
	wantIn(t, log.String(), "was removed")
	noError(t, os.RemoveAll(around))
	gs, data := segments(1)
	if err := s.PutOutcome(4, gs, data); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without the directory around it: %v", err)
	}
	if _, err := os.Stat(around); err == nil {
		t.Error("the directory around it is made again")
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
	for _, c := range [][2]uint64{{6, 5}, {3, 5}, {8, 7}} {
		put(t, s, c[0], 1)
		want(c[1])
	}
	for _, name := range []string{
		tempPrefix + "20",
		fileName(statePrefix, 20, slot.Root{1}) + corruptSuffix,
	} {
		noError(t, os.WriteFile(filepath.Join(dir, name), nil, 0o600))
	}
	want(7)
}
