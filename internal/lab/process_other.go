//go:build !unix

package lab

import "syscall"

func attributes() *syscall.SysProcAttr { return nil }
