//go:build !unix

package attach

import (
	"errors"
	"net"
	"os"
)

func sendFiles(*net.UnixConn, []byte, []*os.File) error { return errors.ErrUnsupported }

func own(string) error { return errors.ErrUnsupported }
