package attach

import (
	"fmt"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// allowed refuses the processes of other users, but root's.
func allowed(c *net.UnixConn) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	var cred *unix.Ucred
	var failed error
	if err := raw.Control(func(fd uintptr) {
		cred, failed = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); err != nil {
		return err
	}
	if failed != nil {
		return failed
	}
	if own := os.Getuid(); cred.Uid != 0 && int(cred.Uid) != own {
		return fmt.Errorf("process %d is user %d's, the node is user %d's", cred.Pid, cred.Uid, own)
	}
	return nil
}
