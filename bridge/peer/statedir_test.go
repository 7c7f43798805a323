package peer

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/internal/disk"
)

// freeDirs is how a directory is opened that no process has.
func freeDirs(string) error { return nil }

func TestPeersSideBySide(t *testing.T) {
	base := t.TempDir()
	take := func(run string) *claim {
		t.Helper()
		c, err := takeDir(base, run, freeDirs)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	a, b, other := take("run"), take("run"), take("run-2")
	if a.Dir == b.Dir || a.Dir == other.Dir || b.Dir == other.Dir {
		t.Errorf("two peers share a directory: %s, %s, %s", a.Dir, b.Dir, other.Dir)
	}
	if !a.First || b.First || !other.First {
		t.Errorf("first: %v %v %v", a.First, b.First, other.First)
	}
	if err := a.Release(); err != nil {
		t.Fatal(err)
	}
	again := take("run")
	if again.Dir != a.Dir {
		t.Errorf("restarted in %s, not in %s", again.Dir, a.Dir)
	}
	for _, c := range []*claim{again, b, other} {
		if err := c.Release(); err != nil {
			t.Error(err)
		}
	}
}

// A directory that another process was given by name is passed over, and so it is free for others
// when that process ends. Any other fault of a directory is reported.
func TestADirectoryInUseIsPassedOver(t *testing.T) {
	base := t.TempDir()
	used := func(dir string) error {
		if filepath.Base(dir) == "peer-1" {
			return fmt.Errorf("%s: %w", dir, disk.ErrLocked)
		}
		return nil
	}
	second, err := takeDir(base, "run", used)
	if err != nil || filepath.Base(second.Dir) != "peer-2" || second.First {
		t.Fatalf("got %+v, %v", second, err)
	}
	first, err := takeDir(base, "run", freeDirs)
	if err != nil || filepath.Base(first.Dir) != "peer-1" {
		t.Fatalf("got %+v, %v", first, err)
	}
	wrong := errors.New("others can write there")
	if c, err := takeDir(base, "run", func(string) error { return wrong }); !errors.Is(err, wrong) {
		t.Errorf("got %+v, %v", c, err)
	}
	for _, c := range []*claim{first, second} {
		if err := c.Release(); err != nil {
			t.Error(err)
		}
	}
}

func TestRunNamesStayUnderBase(t *testing.T) {
	base := filepath.Join(t.TempDir(), "base")
	for _, run := range []string{"..", ".", "../../x", "a/b", ".hidden", strings.Repeat("ä", 64), "x*y"} {
		c, err := takeDir(base, run, freeDirs)
		if err != nil {
			t.Errorf("%q: %v", run, err)
			continue
		}
		if rel, err := filepath.Rel(base, c.Dir); err != nil || strings.HasPrefix(rel, ".") ||
			strings.Count(rel, string(filepath.Separator)) != 1 {
			t.Errorf("%q lies at %s", run, c.Dir)
		}
		if err := c.Release(); err != nil {
			t.Error(err)
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
	c, err := takeDir(base, "run", freeDirs)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Release() }()
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	named, gone := filepath.Join(t.TempDir(), "named"), filepath.Join(t.TempDir(), "gone")
	want := []string{
		c.Dir, filepath.Join(base, "old", "attach-1"), filepath.Join(base, "run", "host-"+host, "attach-2"), named,
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
