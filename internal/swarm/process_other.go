//go:build !unix

package swarm

import "syscall"

func attributes() *syscall.SysProcAttr { return nil }
