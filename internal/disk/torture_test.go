package disk_test

import (
	"errors"
	"io/fs"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/internal/disk"
	"github.com/p2pdiloco/p2pdiloco/internal/disk/powerfs"
)

const tortureFile = "/home/peer/books/f"

// survives is what tortureFile holds after a power cut, by seed; "-" if there is none.
func survives(t *testing.T, f *powerfs.FS, seed uint64) string {
	t.Helper()
	b, err := disk.Read(f.Reboot(seed), tortureFile, 1000)
	if errors.Is(err, fs.ErrNotExist) {
		return "-"
	}
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// The power goes before and after every operation: a file is as it was or as it shall be, and as it
// shall be once that was said. With kill, the process dies instead, and the next one finds the file
// and uses its directory, before the power goes.
func TestPowerCutWhileAFileIsWritten(t *testing.T) {
	for name, write := range map[string]func(disk.FS, string) error{
		"create":  func(f disk.FS, s string) error { return disk.Create(f, tortureFile, []byte(s)) },
		"replace": func(f disk.FS, s string) error { return disk.Replace(f, tortureFile, []byte(s)) },
	} {
		for at := range 30 {
			for _, cut := range []powerfs.Cut{powerfs.Before, powerfs.After} {
				for seed := range uint64(20) {
					f := powerfs.New()
					f.CutAt(at, cut)
					said := write(f, "one")
					got := survives(t, f, seed)
					if said == nil && got != "one" || said != nil && got != "one" && got != "-" {
						t.Fatalf("%s: cut %d at %d, seed %d: said %v, and there is %q", name, cut, at, seed, said, got)
					}
					next := f.Restart(seed)
					if err := disk.MakeDir(next, "/home/peer/books"); err != nil {
						t.Fatal(err)
					}
					if err := next.SyncDir("/home/peer/books"); err != nil {
						t.Fatal(err)
					}
					found, err := disk.Read(next, tortureFile, 1000)
					if got := survives(t, next, seed); err == nil && got != string(found) {
						t.Fatalf("%s: killed (%d) at %d, seed %d: found %q, and later %q", name, cut, at, seed, found,
							got)
					}
				}
			}
		}
	}
}

func TestPowerCutWhileAFileIsReplaced(t *testing.T) {
	f := powerfs.New()
	if err := disk.Replace(f, tortureFile, []byte("one")); err != nil {
		t.Fatal(err)
	}
	first := f.Ops()
	if err := disk.Replace(f, tortureFile, []byte("two")); err != nil {
		t.Fatal(err)
	}
	last := f.Ops()
	for at := first; at < last; at++ {
		for seed := range uint64(40) {
			f := powerfs.New()
			if err := disk.Replace(f, tortureFile, []byte("one")); err != nil {
				t.Fatal(err)
			}
			f.CutAt(at, powerfs.Before)
			if err := disk.Replace(f, tortureFile, []byte("two")); !errors.Is(err, powerfs.ErrPowerCut) {
				t.Fatal(err)
			}
			if got := survives(t, f, seed); got != "one" && got != "two" {
				t.Fatalf("cut at %d, seed %d: %q", at, seed, got)
			}
		}
	}
}
