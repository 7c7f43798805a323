package plugin

import "syscall"

// processAttributes let the process end with this one even if it no longer reads its pipe. SIGKILL would leave alive what the trainer
// has started: at SIGTERM the host kills its whole group (host.c).
func processAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
}
