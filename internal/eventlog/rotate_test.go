package eventlog

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func lines(w *Writer, from, to int) error {
	for i := from; i < to; i++ {
		if err := w.Line(fmt.Appendf(nil, `{"event":"e","slot":%d}`, i)); err != nil {
			return err
		}
	}
	return nil
}

// Files are bounded in size and number, keep their mode, and a reader misses no line and sees none
// twice, however many rotations happen between two looks.
func TestRotation(t *testing.T) {
	for _, lookEvery := range []int{1, 3, 40, 150} {
		path := filepath.Join(t.TempDir(), "events")
		w, err := Create(path, Rotation{Size: 1000, Keep: 7})
		if err != nil {
			t.Fatal(err)
		}
		noError(t, os.Chmod(path, 0o640))
		follower := Follow(path)
		var seen []uint64
		look := func() {
			err := follower.Next(func(b []byte) {
				l, err := Parse(b)
				if err != nil {
					t.Error(err)
				}
				seen = append(seen, l.Slot)
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		look()
		for i := 0; i < 600; i += lookEvery {
			noError(t, lines(w, i, i+lookEvery))
			look()
		}
		for i, s := range seen {
			if s != uint64(i) {
				t.Fatalf("looked at every %d lines: line %d is %d", lookEvery, i, s)
			}
		}
		if len(seen) < 600 {
			t.Errorf("looked at every %d lines: %d lines", lookEvery, len(seen))
		}
		names, err := filepath.Glob(path + "*")
		if err != nil || len(names) != 8 {
			t.Errorf("files %v, %v", names, err)
		}
		for _, name := range names {
			info, err := os.Stat(name)
			if err != nil || info.Size() > 1000 || info.Mode().Perm() != 0o640 {
				t.Errorf("%s: %v, %v", name, info, err)
			}
		}
		_ = follower.Close()
		_ = w.Close()
	}
}

// A reader beside the writer misses nothing, whenever it looks.
func TestRotationBesideAReader(t *testing.T) {
	const count = 4000
	path := filepath.Join(t.TempDir(), "events")
	w, err := Create(path, Rotation{Size: 5000, Keep: 30})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	follower, next := Follow(path), uint64(0)
	defer follower.Close()
	// it opens the first file
	noError(t, follower.Next(func(b []byte) { t.Fatalf("%s in a file without lines", b) }))
	written := make(chan error, 1)
	go func() { written <- lines(w, 0, count) }()
	for over := false; !over; {
		select {
		case err := <-written:
			if over = true; err != nil {
				t.Fatal(err)
			}
		default:
		}
		err := follower.Next(func(b []byte) {
			if l, err := Parse(b); err != nil || l.Slot != next {
				t.Fatalf("%s where line %d comes, %v", b, next, err)
			}
			next++
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if next != count {
		t.Errorf("%d of %d lines", next, count)
	}
}

// A process that starts again appends to the file, and counts what is there. With fewer files to
// keep, the others go.
func TestRotationGoesOnAfterARestart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events")
	for i, r := range []Rotation{{1000, 5}, {1000, 5}, {1000, 2}, {1000, 0}, {}} {
		w, err := Create(path, r)
		if err != nil {
			t.Fatal(err)
		}
		noError(t, lines(w, 0, 300))
		names, _ := filepath.Glob(path + "*")
		if want := []int{6, 6, 3, 1, 1}[i]; len(names) != want {
			t.Errorf("start %d: files %v, want %d", i, names, want)
		}
		_ = w.Close()
	}
}

// A reader that was away for longer than files are kept goes on with the oldest.
func TestALateReaderGoesOn(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events")
	w, err := Create(path, Rotation{Size: 1000, Keep: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	follower, got := Follow(path), []string(nil)
	defer follower.Close()
	take := func() {
		noError(t, follower.Next(func(b []byte) { got = append(got, string(b)) }))
	}
	noError(t, lines(w, 0, 1))
	take()
	noError(t, lines(w, 1, 300))
	take()
	if n := len(got); n < 45 || n > 100 || !strings.Contains(got[n-1], ":299}") {
		t.Errorf("%d lines, the last %q", n, got[n-1])
	}
}

// A full file that cannot be renamed grows on, and that is said now and then.
func TestAFileThatCannotBeRotatedGrowsOn(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events")
	w, err := Create(path, Rotation{Size: 1000, Keep: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	// no file can take this name
	noError(t, os.MkdirAll(filepath.Join(path+".1", "full"), 0o700))
	failed := 0
	for i := range 200 {
		if err := lines(w, i, i+1); err != nil {
			failed++
		}
	}
	b, err := os.ReadFile(path)
	if err != nil || strings.Count(string(b), "\n") != 200 || failed == 0 || failed > 10 {
		t.Errorf("%d lines, %d complaints, %v", strings.Count(string(b), "\n"), failed, err)
	}
}
