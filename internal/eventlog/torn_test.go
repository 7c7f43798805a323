package eventlog

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// fills is a file on a disk that is full after so many bytes, until there is room again.
type fills struct {
	*os.File
	room int
}

func (f *fills) Write(b []byte) (int, error) {
	n := min(len(b), f.room)
	f.room -= n
	m, err := f.File.Write(b[:n])
	if err == nil && m < len(b) {
		err = syscall.ENOSPC
	}
	return m, err
}

// A full disk takes the beginning of a line. The next event, once there is room, is a line of its
// own: both were lost.
func TestALineThatDidNotFitTakesNoOtherWithIt(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events")
	w, err := Create(path, Rotation{})
	if err != nil {
		t.Fatal(err)
	}
	disk := &fills{File: w.mu.f.(*os.File), room: 25}
	w.mu.f = disk
	for _, c := range []struct {
		event string
		room  int
		fails bool
	}{{"first", 0, false}, {"torn", 0, true}, {"lost", 0, true}, {"after", 100, false}, {"last", 0, false}} {
		disk.room += c.room
		if err := w.Line([]byte(`{"event":"` + c.event + `"}`)); errors.Is(err, syscall.ENOSPC) != c.fails {
			t.Errorf("%s: %v", c.event, err)
		}
	}
	noError(t, w.Close())
	b, err := os.ReadFile(path)
	want := "{\"event\":\"first\"}\n{\"event\n{\"event\":\"after\"}\n{\"event\":\"last\"}\n"
	if err != nil || string(b) != want {
		t.Errorf("the file holds %q, want %q (%v)", b, want, err)
	}
}
