package plugin

import "syscall"

// processAttributes make the kernel end the process with this one, even if a call hangs. The signal
// is SIGTERM, at which the host kills its whole group (host.c): SIGKILL would leave alive what the
// trainer has started.
func processAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
}
