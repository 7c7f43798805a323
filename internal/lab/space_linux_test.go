package lab

import (
	"errors"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestRefusalSaysWhatToDo(t *testing.T) {
	explain := Space("").explain
	for _, text := range []string{"unshare failed: Operation not permitted", "mkdir failed: Permission denied"} {
		if err := explain(errors.New(text)); !errors.Is(err, ErrNotRoot) || !strings.Contains(err.Error(), text) {
			t.Error(err)
		}
	}
	if other := errors.New("no space"); explain(other) != other {
		t.Error("another failure was explained as one of permission")
	}
}

func TestOwnerIsInTheName(t *testing.T) {
	for name, want := range map[Space]string{
		"lab-17-1-0": "17", "lab-17-1": "", "lab-17-1-0-0": "", "other-17-1-0": "", "lab-x-1-0": "", "lab-17-1-x": "",
		"lab--17-1-0": "", "lab-0-1-0": "",
	} {
		if pid := name.owner("lab"); pid != want {
			t.Errorf("%s: process %q, want %q", name, pid, want)
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
	pid := strconv.Itoa(child.Process.Pid)
	if !Alive("self") || !Alive(pid) || Alive("1073741824") {
		t.Error("a process that runs is taken for dead, or none for one that runs")
	}
	_ = in.Close()
	// Wait for the end without reaping: WNOWAIT leaves the zombie.
	if err := unix.Waitid(unix.P_PID, child.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil); err != nil {
		t.Fatal(err)
	}
	if Alive(pid) {
		t.Error("a zombie is taken for alive")
	}
	if err := child.Wait(); err != nil {
		t.Fatal(err)
	}
	if Alive(pid) {
		t.Error("a process that has ended is taken for alive")
	}
}
