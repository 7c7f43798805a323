package powerfs

import (
	"bytes"
	"errors"
	"io/fs"
	"maps"
	"os"
	"syscall"
	"testing"

	"pgregory.net/rapid"

	"github.com/p2pdiloco/p2pdiloco/internal/disk"
)

const many = 200 // seeds

type fataler interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

func must(t fataler, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

func create(t fataler, f *FS, path string) disk.File {
	t.Helper()
	file, err := f.OpenFile(path, os.O_RDWR|os.O_CREATE)
	must(t, err)
	return file
}

func write(t fataler, f disk.File, b []byte, off int64) {
	t.Helper()
	_, err := f.WriteAt(b, off)
	must(t, err)
}

// holds is a file's contents, nil if it is missing.
func holds(t fataler, f *FS, path string) []byte {
	t.Helper()
	b, err := disk.Read(f, path, 1<<30)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	must(t, err)
	if b == nil {
		b = []byte{}
	}
	return b
}

// after cuts the power in a world made anew for each seed, and counts what the file held then.
func after(t *testing.T, path string, world func(*FS)) map[string]int {
	t.Helper()
	seen := map[string]int{}
	for seed := range uint64(many) {
		f := New()
		world(f)
		b := holds(t, f.Reboot(seed), path)
		if b == nil {
			seen["missing"]++
		} else {
			seen[string(b)]++
		}
		if _, err := f.ReadDir("/"); !errors.Is(err, ErrPowerCut) {
			t.Fatalf("the dead process reads on: %v", err)
		}
	}
	return seen
}

// Each thing that may happen to what was not synced does happen.
func TestUnsyncedBytes(t *testing.T) {
	old, news := bytes.Repeat([]byte("o"), 700), bytes.Repeat([]byte("n"), 2000)
	what := map[string]int{}
	for b := range after(t, "/f", func(f *FS) {
		file := create(t, f, "/f")
		write(t, file, old, 0)
		must(t, file.Sync(), f.SyncDir("/"))
		write(t, file, news, 700)
	}) {
		if len(b) < 700 || b[:700] != string(old) {
			t.Fatalf("synced bytes are lost: %d of %d", len(b), 700)
		}
		tail := b[700:]
		if rest := bytes.Trim([]byte(tail), "n\x00"); len(rest) > 0 || len(tail) > len(news) {
			t.Fatalf("bytes from nowhere: %q", rest)
		}
		switch n, z := bytes.IndexByte([]byte(tail), 'n'), bytes.IndexByte([]byte(tail), 0); {
		case tail == "":
			what["lost"]++
		case z < 0 && len(tail) == len(news):
			what["whole"]++
		case z < 0:
			what["cut short"]++
		case n < 0:
			what["zeros"]++
		case bytes.LastIndexByte([]byte(tail), 'n') > z:
			what["later before earlier"]++
		}
		if i := bytes.Index([]byte(b), []byte("n\x00")); i >= 0 && (i+1)%SectorBytes != 0 {
			what["torn inside a sector"]++
		}
	}
	for _, kind := range []string{
		"lost", "whole", "cut short", "zeros", "later before earlier",
		"torn inside a sector",
	} {
		if what[kind] == 0 {
			t.Errorf("never %s: %v", kind, what)
		}
	}
}

func TestUnsyncedNames(t *testing.T) {
	seen := after(t, "/f", func(f *FS) {
		for _, name := range []string{"a", "b"} {
			file := create(t, f, "/"+name)
			write(t, file, []byte(name), 0)
			must(t, file.Sync())
		}
		must(t, f.Link("/a", "/f"), f.SyncDir("/"), f.Rename("/b", "/f"), f.Remove("/f"))
	})
	if seen["a"] == 0 || seen["b"] == 0 || seen["missing"] == 0 || len(seen) != 3 {
		t.Errorf("after the cut: %v", seen)
	}
	if seen := after(t, "/d/f", func(f *FS) {
		must(t, f.Mkdir("/d"))
		must(t, create(t, f, "/d/f").Sync(), f.SyncDir("/d"))
	}); seen["missing"] == 0 || seen[""] == 0 {
		t.Errorf("in a directory that nobody synced: %v", seen)
	}
}

// After a failed Sync the next one says that all is well, and the bytes may be lost: written again,
// they are safe.
func TestAFailedSyncDropsWhatItShouldHaveWritten(t *testing.T) {
	world := func(again bool) func(f *FS) {
		return func(f *FS) {
			file := create(t, f, "/f")
			must(t, f.SyncDir("/"))
			f.Plan(func(op Op) Fault {
				if op.Kind == Sync && op.N == 3 {
					return Fault{Err: syscall.EIO}
				}
				return Fault{}
			})
			write(t, file, []byte("voted"), 0)
			if err := file.Sync(); !errors.Is(err, syscall.EIO) || !disk.Fault(err) {
				t.Fatalf("sync on a failing disk: %v", err)
			}
			if got := holds(t, f, "/f"); string(got) != "voted" {
				t.Fatalf("the cache has %q", got)
			}
			if again {
				write(t, file, []byte("voted"), 0)
			}
			must(t, file.Sync())
		}
	}
	if seen := after(t, "/f", world(false)); seen["voted"] == 0 || seen["\x00\x00\x00\x00\x00"] == 0 {
		t.Errorf("after the cut: %v", seen)
	}
	if seen := after(t, "/f", world(true)); seen["voted"] != many {
		t.Errorf("written again: %v", seen)
	}
	evicted := 0
	for seed := range uint64(many) {
		f := New()
		world(false)(f)
		if got := holds(t, f.Restart(seed), "/f"); string(got) != "voted" {
			evicted++
		}
	}
	if evicted == 0 || evicted == many {
		t.Errorf("out of the cache: %d of %d", evicted, many)
	}
}

func TestCutBeforeAndAfter(t *testing.T) {
	for cut, want := range map[Cut]string{Before: "", After: "x"} {
		f := New()
		file := create(t, f, "/f")
		must(t, f.SyncDir("/"))
		write(t, file, []byte("x"), 0)
		f.CutAt(3, cut)
		if err := file.Sync(); !errors.Is(err, ErrPowerCut) || f.Ops() != 4 {
			t.Errorf("sync without power: %v, %d ops", err, f.Ops())
		}
		if _, err := file.Write(nil); !errors.Is(err, ErrPowerCut) {
			t.Errorf("written after the cut: %v", err)
		}
		if got := holds(t, f.Reboot(0), "/f"); string(got) != want {
			t.Errorf("cut %v: %q", cut, got)
		}
	}
}

func TestAFullDiskTakesHalf(t *testing.T) {
	f := New()
	file := create(t, f, "/f")
	f.Plan(func(op Op) Fault {
		if op.Kind == Write {
			return Fault{Err: syscall.ENOSPC}
		}
		return Fault{}
	})
	if n, err := file.Write([]byte("1234")); n != 2 || !errors.Is(err, syscall.ENOSPC) ||
		string(holds(t, f, "/f")) != "12" {
		t.Errorf("wrote %d, %v; the file holds %q", n, err, holds(t, f, "/f"))
	}
}

func TestRestartKeepsTheCache(t *testing.T) {
	f := New()
	write(t, create(t, f, "/f"), []byte("x"), 0)
	if got := holds(t, f.Restart(0), "/f"); string(got) != "x" {
		t.Errorf("after a kill: %q", got)
	}
}

// Whatever is done with files in whatever order: what was synced, bytes and names, is there after
// the cut, and what a file holds was written to it.
func TestProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f, names := New(), []string{"/a", "/b", "/c"}
		var at string
		one := func(t *rapid.T) string { at = rapid.SampledFrom(names).Draw(t, "file"); return at }
		fill := byte(0)
		// by name: bytes certain, bytes and name certain
		synced, durable := map[string][]byte{}, map[string][]byte{}
		t.Repeat(map[string]func(*rapid.T){
			"write": func(t *rapid.T) {
				fill++
				file := create(t, f, one(t))
				off := len(holds(t, f, at))
				write(t, file, bytes.Repeat([]byte{fill}, rapid.IntRange(0, 1500).Draw(t, "bytes")), int64(off))
			},
			"sync": func(t *rapid.T) {
				must(t, create(t, f, one(t)).Sync())
				synced[at] = holds(t, f, at)
			},
			"syncdir": func(t *rapid.T) {
				must(t, f.SyncDir("/"))
				maps.Copy(durable, synced)
			},
			"": func(t *rapid.T) {},
		})
		next := f.Reboot(rapid.Uint64Range(0, 50).Draw(t, "seed"))
		for name, b := range durable {
			if got := holds(t, next, name); !bytes.HasPrefix(got, b) {
				t.Fatalf("%s: %d bytes were synced, it holds %d", name, len(b), len(got))
			}
		}
		for _, name := range names {
			got, was := holds(t, next, name), holds(t, f.survivor(), name)
			for i, c := range got {
				if i >= len(was) || c != 0 && c != was[i] {
					t.Fatalf("%s: byte %d is %d", name, i, c)
				}
			}
		}
	})
}

// survivor is the file system with all that was in the cache.
func (f *FS) survivor() *FS { return newFS(f.mu.root) }
