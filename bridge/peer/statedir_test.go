package peer

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/internal/disk"
	"github.com/p2pdiloco/p2pdiloco/internal/node/datadir"
)

// take opens a directory of a run, and closes it at the end of the test at the latest.
func take(t *testing.T, base, run string) (dir datadir.Dir, first bool) {
	t.Helper()
	dir, first, err := takeDir(base, run)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = dir.Close() })
	return dir, first
}

func TestPeersSideBySide(t *testing.T) {
	base := t.TempDir()
	a, firstA := take(t, base, "run")
	b, firstB := take(t, base, "run")
	other, firstOther := take(t, base, "run-2")
	if a.Root == b.Root || a.Root == other.Root || b.Root == other.Root {
		t.Errorf("two peers share a directory: %s, %s, %s", a.Root, b.Root, other.Root)
	}
	if !firstA || firstB || !firstOther {
		t.Errorf("first: %v %v %v", firstA, firstB, firstOther)
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	if again, _ := take(t, base, "run"); again.Root != a.Root {
		t.Errorf("restarted in %s, not in %s", again.Root, a.Root)
	}
}

// A directory that another process was given by name is passed over, and so it is free for others
// when that process ends. Any other fault of a directory is reported.
func TestADirectoryInUseIsPassedOver(t *testing.T) {
	base := t.TempDir()
	path := filepath.Join(dirOfRun(base, "run"), "peer-1")
	used, err := datadir.Open(disk.OS, path)
	if err != nil {
		t.Fatal(err)
	}
	if second, first := take(t, base, "run"); filepath.Base(second.Root) != "peer-2" || first {
		t.Errorf("got %+v", second)
	}
	if err := used.Close(); err != nil {
		t.Fatal(err)
	}
	first, _ := take(t, base, "run")
	if filepath.Base(first.Root) != "peer-1" {
		t.Errorf("got %+v", first)
	}
	if err := errors.Join(first.Close(), os.Chmod(path, 0o777)); err != nil { //nolint:gosec // this is the fault
		t.Fatal(err)
	}
	if dir, _, err := takeDir(base, "run"); err == nil || !strings.Contains(err.Error(), "other users") {
		t.Errorf("got %+v, %v", dir, err)
	}
}

func TestRunNamesStayUnderBase(t *testing.T) {
	base := filepath.Join(t.TempDir(), "base")
	for _, run := range []string{"..", ".", "../../x", "a/b", ".hidden", strings.Repeat("ä", 64), "x*y"} {
		dir, _ := take(t, base, run)
		if rel, err := filepath.Rel(base, dir.Root); err != nil || strings.HasPrefix(rel, ".") ||
			strings.Count(rel, string(filepath.Separator)) != 1 {
			t.Errorf("%q lies at %s", run, dir.Root)
		}
	}
}

// TestDirs: every directory that a peer of this host may have is listed, with its full path: those
// chosen here, those that the Python package chooses, now and in an earlier release, and those that
// a user named. Directories of other hosts that share a home folder are not, nor those that are
// gone.
func TestDirs(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	base := filepath.Join(t.TempDir(), "odd[1]*name")
	taken, _ := take(t, base, "run")
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	named, gone := filepath.Join(t.TempDir(), "named"), filepath.Join(t.TempDir(), "gone")
	want := []string{
		taken.Root, filepath.Join(base, "old", "attach-1"), filepath.Join(base, "run", "host-"+host, "attach-2"), named,
	}
	for _, dir := range append(want, gone, filepath.Join(base, "run", "host-another.example", "attach-1")) {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := noteDir(base, dir); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Remove(gone); err != nil {
		t.Fatal(err)
	}
	strange := filepath.Join(base, notes, strings.Repeat("0", 64)) // of another host
	if err := os.WriteFile(strange, []byte(named+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if got, err := Dirs(base); err != nil || !slices.Equal(got, want) {
			t.Errorf("got %v, %v, want %v", got, err, want)
		}
	}
	left, err := os.ReadDir(filepath.Join(base, notes))
	if err != nil || len(left) != 2 {
		t.Errorf("notes %v, %v: one of a directory that is gone, or of one chosen here", left, err)
	}
}

func TestBase(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", "/state")
	if got, err := BaseDir(); err != nil || got != filepath.FromSlash("/state/p2pdiloco") {
		t.Errorf("got %s, %v", got, err)
	}
	t.Setenv("XDG_STATE_HOME", "relative")
	if got, err := BaseDir(); err != nil || !filepath.IsAbs(got) {
		t.Errorf("got %s, %v: a relative XDG_STATE_HOME must not count", got, err)
	}
}
