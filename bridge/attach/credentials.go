//go:build linux || darwin

package attach

import (
	"fmt"
	"net"
	"os"
)

// ask has the system say whose process is at the other end of a socket, and refuses others' but
// root's.
func ask(c *net.UnixConn, who func(fd int) (pid, uid int, err error)) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	var pid, uid int
	var failed error
	if err := raw.Control(func(fd uintptr) { pid, uid, failed = who(int(fd)) }); err != nil {
		return err
	}
	if failed != nil {
		return failed
	}
	if own := os.Getuid(); uid != 0 && uid != own {
		return fmt.Errorf("process %d is user %d's, the node is user %d's", pid, uid, own)
	}
	return nil
}
