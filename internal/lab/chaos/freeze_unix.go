//go:build unix

package chaos

import "syscall"

func (p *node) freeze() {
	p.frozen = true
	p.Signal(syscall.SIGSTOP)
}

// thaw continues the process if it is stopped.
func (p *node) thaw() {
	if p.frozen {
		p.Signal(syscall.SIGCONT)
	}
	p.frozen = false
}

// quit makes the process write all its goroutines to its log, and end.
func (p *node) quit() {
	p.asked = true
	p.Signal(syscall.SIGQUIT)
}
