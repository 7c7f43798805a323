package disk

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"syscall"
	"testing"
)

func TestReplaceIsWholeAndLeavesNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	for _, text := range []string{"a long first text", "short"} {
		noError(t, Replace(OS, path, []byte(text)))
		holds(t, path, text)
	}
	if info, err := os.Stat(path); err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
}

// What a killed process was writing goes with the next Sweep, and nothing else: a user may keep
// files of his own in the directory.
func TestSweepRemovesWhatWasBeingWritten(t *testing.T) {
	dir := t.TempDir()
	f, err := writeTemp(OS, filepath.Join(dir, "secret"), []byte("half"))
	if err != nil {
		t.Fatal(err)
	}
	noError(t, f.Close())
	stays := []string{".other.123", ".secret", ".secret.", ".secret.12b", "secret", "secret.123"}
	for _, name := range stays {
		noError(t, os.WriteFile(filepath.Join(dir, name), nil, 0o600))
	}
	Sweep(OS, dir, "secret", "peers")
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var left []string
	for _, e := range entries {
		left = append(left, e.Name())
	}
	if !slices.Equal(left, stays) {
		t.Errorf("%s was being written; left is %q", f.Name(), left)
	}
}

func TestReadIsBounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	noError(t, Replace(OS, path, []byte("12345")))
	if b, err := Read(OS, path, 5); err != nil || string(b) != "12345" {
		t.Errorf("read %q, %v", b, err)
	}
	if _, err := Read(OS, path, 4); err == nil {
		t.Error("a file above the limit was read")
	}
}

func TestMakeDirIsNoFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a", "b")
	for range 2 {
		noError(t, MakeDir(OS, path))
	}
	file := filepath.Join(path, "f")
	noError(t, Replace(OS, file, nil))
	for _, path := range []string{file, filepath.Join(file, "c")} {
		if err := MakeDir(OS, path); !errors.Is(err, syscall.ENOTDIR) {
			t.Errorf("%s: %v", path, err)
		}
	}
}

func TestLockKeepsASecondOut(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	first, err := OS.Lock(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := OS.Lock(path); !errors.Is(err, ErrLocked) {
		t.Errorf("locked twice: %v", err)
	}
	noError(t, first.Close())
	again, err := OS.Lock(path)
	if err != nil {
		t.Fatalf("after it was freed: %v", err)
	}
	_ = again.Close()
}

func noError(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
