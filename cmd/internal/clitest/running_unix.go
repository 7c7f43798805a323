//go:build unix

package clitest

import (
	"fmt"
	"os"
	"strings"
	"syscall"
)

// Running says whether a process is there and is no zombie.
func Running(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, state, _ := strings.Cut(string(b), ") ")
	return err != nil || !strings.HasPrefix(state, "Z")
}
