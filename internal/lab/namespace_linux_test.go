package lab

import (
	"errors"
	"os"
	"strings"
	"testing"
)

func TestRefusalSaysWhatToDo(t *testing.T) {
	err := explain(&os.PathError{Op: "unshare", Err: os.ErrPermission})
	if !errors.Is(err, ErrNotRoot) || !errors.Is(err, os.ErrPermission) || !strings.Contains(err.Error(), "run this as root") {
		t.Error(err)
	}
	if other := errors.New("no space"); explain(other) != other {
		t.Error("another failure was explained as one of permission")
	}
}

func TestOwnerIsInTheName(t *testing.T) {
	for name, want := range map[string]int{
		"lab-17-1-0": 17, "lab-17-1": 0, "lab-17-1-0-0": 0, "other-17-1-0": 0, "lab-x-1-0": 0, "lab-17-1-x": 0, "lab--17-1-0": 0, "lab-0-1-0": 0,
	} {
		if pid, ok := ownerOf(name, "lab"); pid != want || ok != (want != 0) {
			t.Errorf("%s: process %d, %v; want %d", name, pid, ok, want)
		}
	}
}
