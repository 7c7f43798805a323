//go:build !unix

package cli

import (
	"os"
	"os/exec"
)

func ownGroup(*exec.Cmd) {}

func signalGroup(p *os.Process, _ os.Signal) { _ = p.Kill() }

func passedOn() []os.Signal { return nil }

func (c *command) special(os.Signal, func()) bool { return false }
