package attach

import (
	"net"

	"golang.org/x/sys/unix"
)

// allowed refuses the processes of other users, but root's.
func allowed(c *net.UnixConn) error {
	return ask(c, func(fd int) (pid, uid int, err error) {
		cred, err := unix.GetsockoptXucred(fd, unix.SOL_LOCAL, unix.LOCAL_PEERCRED)
		if err != nil {
			return 0, 0, err
		}
		pid, _ = unix.GetsockoptInt(fd, unix.SOL_LOCAL, unix.LOCAL_PEERPID) // for the text alone
		return pid, int(cred.Uid), nil
	})
}
