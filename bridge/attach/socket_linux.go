package attach

import (
	"net"

	"golang.org/x/sys/unix"
)

// allowed refuses the processes of other users, but root's.
func allowed(c *net.UnixConn) error {
	return ask(c, func(fd int) (pid, uid int, err error) {
		cred, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
		if err != nil {
			return 0, 0, err
		}
		return int(cred.Pid), int(cred.Uid), nil
	})
}
