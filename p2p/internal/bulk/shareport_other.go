//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package bulk

import (
	"errors"
	"syscall"
)

// sharePort is not to be had here: no holes are punched for TCP.
func sharePort(string, string, syscall.RawConn) error { return errors.ErrUnsupported }
