//go:build !linux && !darwin

package attach

import "net"

// allowed refuses nobody: the socket lies in a folder that only its user can enter.
func allowed(*net.UnixConn) error { return nil }
