//go:build unix

package cli

import (
	"os"
	"os/exec"
	"os/signal"
	"syscall"
)

// ownGroup gives a command a process group of its own: what a terminal sends reaches it once, from
// here.
func ownGroup(c *exec.Cmd) { c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

func signalGroup(p *os.Process, s os.Signal) {
	if n, ok := s.(syscall.Signal); ok {
		_ = syscall.Kill(-p.Pid, n) // it may have ended
	}
}

// passedOn are the signals that a command gets, besides those that end a peer.
func passedOn() []os.Signal {
	all := []os.Signal{syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGTSTP, syscall.SIGCONT}
	if !signal.Ignored(syscall.SIGHUP) { // nohup
		all = append(all, syscall.SIGHUP)
	}
	return all
}

// special passes on a signal that does not only ask the command to end.
func (c *command) special(s os.Signal, hungUp func()) bool {
	switch s {
	case syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGCONT:
		signalGroup(c.cmd.Process, s)
	case syscall.SIGTSTP: // Ctrl-Z stops both, and fg or bg lets both go on
		signalGroup(c.cmd.Process, syscall.SIGSTOP)
		_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
	case syscall.SIGHUP:
		c.signal(s)
		hungUp()
	case syscall.SIGQUIT: // the node ends as it does without a command, and shows its goroutines
		c.signal(s)
		signal.Reset(s)
		_ = syscall.Kill(os.Getpid(), syscall.SIGQUIT)
	default:
		return false
	}
	return true
}
