package attachtest

import (
	"os"
	"os/exec"
	"syscall"
	"testing"
)

// full has the path of the full tmpfs, in the process that sees it.
const full = "P2PDILOCO_TEST_FULL_TMPFS"

// OnFullTmpfs runs the calling test once more, in a process that has a tmpfs at a path with no room
// left on it. It returns true there, and the test goes on; here the test is over.
func OnFullTmpfs(t *testing.T, at string) bool {
	t.Helper()
	if os.Getenv(full) != "" {
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
	cmd.Env = append(os.Environ(), full+"="+at)
	out, err := cmd.CombinedOutput()
	switch {
	case cmd.ProcessState == nil || cmd.ProcessState.ExitCode() == 77:
		t.Skipf("no file system can be mounted here: %v, %s", err, out)
	case err != nil:
		t.Errorf("on a full tmpfs: %v\n%s", err, out)
	}
	return false
}
