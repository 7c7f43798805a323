//go:build unix

package node

import (
	"os"
	"os/exec"
	"syscall"
)

// ownGroup gives a command a process group of its own: what a terminal sends reaches it once, from
// here.
func ownGroup(c *exec.Cmd) { c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

func signalGroup(p *os.Process, s os.Signal) {
	if n, ok := s.(syscall.Signal); ok {
		_ = syscall.Kill(-p.Pid, n) // it may have ended
	}
}
