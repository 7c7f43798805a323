//go:build !unix

package chaos

import "os"

// Without such signals no process is stopped, and the fault has no effect.
func (p *node) freeze() {}

func (p *node) thaw() {}

// quit ends the process. No signal makes it write its goroutines here.
func (p *node) quit() {
	p.asked = true
	p.Signal(os.Kill)
}
