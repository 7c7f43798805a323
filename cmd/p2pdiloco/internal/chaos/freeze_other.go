//go:build !unix

package chaos

func (p *node) freeze() {} // Kinds leaves stop out where there is no such signal

func (p *node) thaw() {}

func (p *node) quit() { p.kill() }
