//go:build unix

package attach

import (
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// sendFiles sends descriptors with some bytes.
func sendFiles(c *net.UnixConn, b []byte, files []*os.File) error {
	var fds []int
	for _, f := range files {
		fds = append(fds, int(f.Fd()))
	}
	_, _, err := c.WriteMsgUnix(b, unix.UnixRights(fds...), nil)
	return err
}
