package plugin

import "syscall"

// processAttributes let the process end with this one even if it no longer reads its pipe.
func processAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
