//go:build !linux

package lab

import "syscall"

// attributes put a child in a process group of its own, so that Ctrl-C on the terminal reaches only
// this program, which then stops its children in order.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
