//go:build !unix

package chaos

import "os"

// Without such signals nothing is stopped: the fault passes and hurts nobody.
func (p *node) freeze() {}

func (p *node) thaw() {}

// quit ends it; there is no signal that has it write its goroutines.
func (p *node) quit() {
	p.asked = true
	p.proc.Signal(os.Kill)
}
