//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package bulk

import (
	"errors"
	"syscall"

	"golang.org/x/sys/unix"
)

// sharePort lets several sockets have a local port, each with another end. It is for
// net.Dialer.Control.
func sharePort(_, _ string, c syscall.RawConn) (err error) {
	failed := c.Control(func(fd uintptr) {
		err = errors.Join(
			unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEADDR, 1),
			unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1))
	})
	return errors.Join(failed, err)
}
