package lab

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestRefusalSaysWhatToDo(t *testing.T) {
	err := explain(&os.PathError{Op: "unshare", Err: os.ErrPermission})
	if !errors.Is(err, ErrNotRoot) || !errors.Is(err, os.ErrPermission) ||
		!strings.Contains(err.Error(), "run this as root") {
		t.Error(err)
	}
	if other := errors.New("no space"); explain(other) != other {
		t.Error("another failure was explained as one of permission")
	}
}

func TestOwnerIsInTheName(t *testing.T) {
	for name, want := range map[string]int{
		"lab-17-1-0": 17, "lab-17-1": 0, "lab-17-1-0-0": 0, "other-17-1-0": 0, "lab-x-1-0": 0, "lab-17-1-x": 0,
		"lab--17-1-0": 0, "lab-0-1-0": 0,
	} {
		if pid, ok := ownerOf(name, "lab"); pid != want || ok != (want != 0) {
			t.Errorf("%s: process %d, %v; want %d", name, pid, ok, want)
		}
	}
}

// TestZombiesAreDead looks at this process, at a child that has ended, before and after Wait, and
// at a number that no process has.
func TestZombiesAreDead(t *testing.T) {
	child := exec.Command("cat")
	in, err := child.StdinPipe()
	if err == nil {
		err = child.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	pid := child.Process.Pid
	if !alive(os.Getpid()) || !alive(pid) || alive(1<<30) {
		t.Error("a process that runs is taken for dead, or none for one that runs")
	}
	_ = in.Close()
	// Wait for the end without reaping: WNOWAIT leaves the zombie.
	if err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil); err != nil {
		t.Fatal(err)
	}
	if alive(pid) {
		t.Error("a zombie is taken for alive")
	}
	if err := child.Wait(); err != nil {
		t.Fatal(err)
	}
	if alive(pid) {
		t.Error("a process that has ended is taken for alive")
	}
}
