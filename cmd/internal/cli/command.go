package cli

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/p2pdiloco/p2pdiloco/bridge/attach"
)

// A command whose node has failed gets so long to end by itself, and after a SIGTERM so long again.
const commandTime = 30 * time.Second

// drainTime is how long the output of a command is read that has ended: processes that it has
// started may hold it open.
const drainTime = 5 * time.Second

// command is a running command that trains. It has a process group of its own, which signals are
// passed on to. The methods of a nil one do nothing.
type command struct {
	cmd      *exec.Cmd
	done     chan struct{} // closed when it has ended
	err      error         // once done
	signaled atomic.Bool   // it was asked to end
}

// startCommand starts a command that finds the node's socket in its environment. hungUp is called
// after a SIGHUP, and ended when the command has ended.
func startCommand(
	args []string, socket string, stdout, stderr io.Writer, hungUp func(), ended func(error),
) (*command, error) {
	c := &command{cmd: exec.Command(args[0], args[1:]...), done: make(chan struct{})} //nolint:noctx // it outlives all
	c.cmd.Stdout, c.cmd.Stderr, c.cmd.WaitDelay = stdout, stderr, drainTime
	c.cmd.Env = append(os.Environ(), attach.Variable+"="+socket)
	ownGroup(c.cmd)
	signals := make(chan os.Signal, 8) // before the command: one in between would end the node
	signal.Notify(signals, append(passedOn(), os.Interrupt, syscall.SIGTERM)...)
	if err := c.cmd.Start(); err != nil {
		signal.Stop(signals)
		return nil, fmt.Errorf("the command after --: %w", err)
	}
	go func() {
		for {
			select {
			case s := <-signals:
				if !c.special(s, hungUp) {
					c.signal(s)
				}
			case <-c.done:
				signal.Stop(signals)
				return
			}
		}
	}()
	go func() {
		err := c.cmd.Wait()
		if err != nil {
			c.err = fmt.Errorf("%s: %w", args[0], err)
		}
		close(c.done)
		ended(err)
	}()
	return c, nil
}

func (c *command) signal(s os.Signal) {
	c.signaled.Store(true)
	signalGroup(c.cmd.Process, s)
}

// wasSignaled says whether the command was asked to end.
func (c *command) wasSignaled() bool { return c != nil && c.signaled.Load() }

// runs says whether the command has not ended yet.
func (c *command) runs() bool {
	if c == nil {
		return false
	}
	select {
	case <-c.done:
		return false
	default:
		return true
	}
}

// wait waits until the command has ended, and returns an error if it has failed. hurry: what it
// trained for is over, so it is asked to end after a while.
func (c *command) wait(hurry bool) error {
	if c == nil {
		return nil
	}
	if hurry {
		c.hurry()
	}
	<-c.done
	if c.signaled.Load() {
		return nil
	}
	return c.err
}

func (c *command) hurry() {
	for _, s := range []os.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		select {
		case <-c.done:
			return
		case <-time.After(commandTime):
			c.signal(s)
		}
	}
}

func (c *command) kill() {
	if c != nil {
		c.signal(syscall.SIGKILL)
	}
}

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
	return andHangUp(syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGTSTP, syscall.SIGCONT)
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
