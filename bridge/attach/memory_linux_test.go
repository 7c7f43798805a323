package attach

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// What is too large for the free memory is refused before anything is taken.
func TestTooLittleMemoryForAFile(t *testing.T) {
	if err := fits(5<<20, 4<<20); err == nil || !strings.Contains(err.Error(),
		"takes 5 MiB, and 4 MiB are free on this machine or in its cgroup: end other programs") {
		t.Error(err)
	}
	if err := fits(4<<20, 4<<20); err != nil {
		t.Error(err)
	}
	if f, err := NewMemoryFile(t.Context(), 1<<62); err == nil || !strings.Contains(err.Error(), "too little memory") {
		t.Errorf("%v, %v", f, err)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if f, err := NewMemoryFile(gone, Size(1<<20)); !errors.Is(err, context.Canceled) {
		t.Errorf("memory that nobody wants any more: %v, %v", f, err)
	}
}

// TestAFullFileSystem: where vectors are files without a name, as on macOS, a full disk or tmpfs is
// an error before anything is shared. A file that was only made long enough would be mapped all the
// same, and the first write to it would kill the node.
func TestAFullFileSystem(t *testing.T) {
	dir := t.TempDir()
	f, read, err := unnamed(t.Context(), dir, Size(20_000))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	defer read.Close()
	if _, err := read.Write([]byte{1}); err == nil {
		t.Error("the second descriptor can write")
	}
	if names, err := os.ReadDir(dir); err != nil || len(names) > 0 {
		t.Errorf("left behind: %v, %v", names, err)
	}
	const small = "/mnt"
	if !onFullTmpfs(t, small) {
		return
	}
	_, _, err = unnamed(t.Context(), small, Size(1<<20))
	if err == nil || !strings.HasPrefix(err.Error(), "4 MiB of memory to share with the trainer: ") ||
		!strings.Contains(err.Error(), "no space left on device") {
		t.Error(err)
	}
	if names, err := os.ReadDir(small); err != nil || len(names) > 1 {
		t.Errorf("left behind: %v, %v", names, err)
	}
}

// fullTmpfs has the path of the full tmpfs, in the process that sees it.
const fullTmpfs = "P2PDILOCO_TEST_FULL_TMPFS"

// onFullTmpfs runs the calling test once more, in a process that has a tmpfs at a path with no room
// left on it. It returns true there, and the test goes on; here the test is over.
func onFullTmpfs(t *testing.T, at string) bool {
	t.Helper()
	if os.Getenv(fullTmpfs) != "" {
		return true
	}
	if os.Getuid() != 0 {
		t.Skip("only root can mount a file system")
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	const script = `mount -t tmpfs -o size=64k none "$1" || exit 77
		head -c 1000000 /dev/zero >"$1/full" 2>/dev/null
		exec "$0" -test.run "^$2\$" -test.v`
	cmd := exec.CommandContext(t.Context(), "sh", "-c", script, exe, at, t.Name())
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	cmd.Env = append(os.Environ(), fullTmpfs+"="+at)
	out, err := cmd.CombinedOutput()
	switch {
	case cmd.ProcessState == nil || cmd.ProcessState.ExitCode() == 77:
		t.Skipf("no file system can be mounted here: %v, %s", err, out)
	case err != nil:
		t.Errorf("on a full tmpfs: %v\n%s", err, out)
	}
	return false
}

// A file's size is fixed, its second descriptor cannot write, and a region keeps its place when
// another file comes there.
func TestFilesAndRegions(t *testing.T) {
	const d = 20_000
	f, err := NewMemoryFile(t.Context(), Size(d))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Truncate(4096); err == nil {
		t.Error("the file could be truncated")
	}
	read, err := f.ReadOnly()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	_, err = unix.Mmap(int(read.Fd()), 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err == nil {
		t.Error("a rank could map start for writing")
	}
	theirs, err := unix.Mmap(int(read.Fd()), 0, int(Size(d)), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Munmap(theirs) }()
	region, err := ReserveRegion(Size(d))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := region.Close(); err != nil {
			t.Error(err)
		}
	}()
	if err := region.Map(f); err != nil {
		t.Fatal(err)
	}
	v := region.Vector(d)
	v[d-1] = 1
	region.Word(64).Store(7)
	if theirs[64] != 7 || theirs[Offset+4*d-1] != 0x3f {
		t.Error("the memory is not shared")
	}
	next, err := NewMemoryFile(t.Context(), Size(d))
	if err != nil {
		t.Fatal(err)
	}
	defer next.Close()
	if err := region.Map(next); err != nil || v[d-1] != 0 || region.Word(64).Load() != 0 {
		t.Errorf("%v, %v: the region shows the old file", v[d-1], err)
	}
	if v[d-1] = 2; theirs[Offset+4*d-1] != 0x3f {
		t.Error("what the old file's users see has changed")
	}
}
