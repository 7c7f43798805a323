//go:build !unix

package attach

import (
	"errors"
	"net"
	"os"
)

func sendFiles(*net.UnixConn, []byte, []*os.File) error { return errors.ErrUnsupported }
