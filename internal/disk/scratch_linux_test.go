package disk

import (
	"errors"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// Scratch lies in a file that has all its room and no name, and gives the room back.
func TestScratch(t *testing.T) {
	dir := t.TempDir()
	const size = 3 << 20
	b, free, err := OS.Scratch(dir, size)
	if err != nil {
		t.Fatal(err)
	}
	if names, err := os.ReadDir(dir); err != nil || len(names) > 0 {
		t.Errorf("names are left: %v, %v", names, err)
	}
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil || !strings.Contains(string(maps), dir+"/tmp-") {
		t.Errorf("no file of the folder is mapped: %v", err)
	}
	if len(b) != size || b[0] != 0 || b[size-1] != 0 {
		t.Fatalf("%d bytes, of which the first and the last are %d and %d", len(b), b[0], b[size-1])
	}
	b[0], b[size-1] = 1, 2
	if free(); b[0] != 0 || b[size-1] != 0 {
		t.Error("the room is not given back")
	}
}

// A disk that has not all the room refuses at once. A file that was only made long enough would end
// the process at the first write beyond what there is.
func TestScratchOnAFullDisk(t *testing.T) {
	dir := t.TempDir()
	_, _, err := OS.Scratch(dir, 1<<60)
	if !errors.Is(err, unix.ENOSPC) || !strings.Contains(err.Error(), "1152921504606 MB in "+dir) {
		t.Error(err)
	}
	if names, err := os.ReadDir(dir); err != nil || len(names) > 0 {
		t.Errorf("names are left: %v, %v", names, err)
	}
	f, err := os.Create(dir + "/file")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var stat unix.Stat_t
	if err := errors.Join(reserve(f, 5<<20), unix.Fstat(int(f.Fd()), &stat)); err != nil || stat.Blocks*512 < 5<<20 {
		t.Errorf("%d bytes of the disk are reserved: %v", stat.Blocks*512, err)
	}
}
