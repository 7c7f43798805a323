package replica

import (
	"math"
	"os"
	"path/filepath"
	"testing"
)

func TestReadingWhatIsFree(t *testing.T) {
	if n := FreeMemory(); n == 0 || n == math.MaxUint64 || n > MachineMemory() {
		t.Errorf("%d bytes are free here, of %d", n, MachineMemory())
	}
	if n := available("MemTotal: 9 kB\nMemAvailable:   7 kB\n"); n != 7<<10 {
		t.Error(n)
	}
	if n := available("nothing"); n != math.MaxUint64 {
		t.Error(n)
	}
	root := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	read := func() uint64 {
		least := uint64(math.MaxUint64)
		for _, g := range above(root, "/a/b", group{"", "memory.max", "memory.current", "inactive_file"}) {
			least = min(least, g.free())
		}
		return least
	}
	if n := read(); n != math.MaxUint64 {
		t.Error(n)
	}
	write("a/b/memory.max", "max\n")
	write("a/b/memory.current", "70\n")
	if n := read(); n != math.MaxUint64 {
		t.Errorf("no limit: %d", n)
	}
	write("a/memory.max", "100\n")
	write("a/memory.current", "80\n")
	if n := read(); n != 20 {
		t.Errorf("the group above: %d", n)
	}
	write("a/memory.stat", "file 60\ninactive_file 50\n")
	if n := read(); n != 70 {
		t.Errorf("with files that can be dropped: %d", n)
	}
	write("a/b/memory.max", "75\n")
	if n := read(); n != 5 {
		t.Errorf("the group itself: %d", n)
	}
	write("a/memory.current", "180\n")
	write("a/memory.stat", "")
	if n := read(); n != 0 {
		t.Errorf("over the limit: %d", n)
	}
}
