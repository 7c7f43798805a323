//go:build unix

package plugin

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// outputDelay is how long output may still arrive from processes that the trainer started and that
// were killed with it.
const outputDelay = time.Second

// startCommand starts the host with the note as descriptor 3. The process leads a group of its own,
// so that a Ctrl-C at the terminal reaches only the peer, which then cancels, and so that the
// processes that the trainer starts end with it.
func startCommand(p *process, cfg Config, note *os.File) error {
	self, err := program(len(cfg.Wrap) > 0)
	if err != nil {
		return err
	}
	line := append(slices.Clone(cfg.Wrap), self)
	p.cmd = exec.Command(line[0], line[1:]...)
	if len(cfg.Wrap) == 0 {
		p.cmd.Args = []string{"p2pdiloco-trainer", filepath.Base(cfg.Path)} // what ps shows
	}
	p.cmd.Env = append(os.Environ(), hostVariable+"=1")
	p.cmd.Stdout, p.cmd.Stderr, p.cmd.ExtraFiles = cfg.Stderr, cfg.Stderr, []*os.File{note}
	p.cmd.SysProcAttr = processAttributes()
	p.cmd.WaitDelay = outputDelay
	started := make(chan error, 1)
	go p.supervise(started)
	return <-started
}

// supervise starts the process and waits for its end, from one thread that lives as long as the
// process: on Linux the kernel kills the process when the thread that started it ends.
func (p *process) supervise(started chan<- error) {
	runtime.LockOSThread()
	err := p.cmd.Start()
	started <- err
	if err != nil {
		return
	}
	_ = p.cmd.Wait() // ProcessState says it
	p.kill()
	close(p.exited)
}

// program is the path of this program, even if its file was replaced meanwhile.
func program(wrapped bool) (string, error) {
	if runtime.GOOS == "linux" && !wrapped {
		return "/proc/self/exe", nil
	}
	return os.Executable()
}

// kill ends the process's whole group. It must be called before the process has been waited for,
// because afterwards its ID may belong to another process.
func (p *process) kill() {
	select {
	case <-p.exited:
	default:
		_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
	}
}

// killed says whether SIGKILL ended the process. It must have ended.
func (p *process) killed() bool {
	status, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == syscall.SIGKILL
}

// ending describes how the process ended. It must have ended.
func (p *process) ending() string {
	status, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
	switch {
	case !ok:
		return p.cmd.ProcessState.String()
	case p.killed():
		return "it was killed (SIGKILL), perhaps because the machine's memory was used up"
	case status.Signaled():
		dumped := ""
		if status.CoreDump() {
			dumped = ", core dumped"
		}
		return fmt.Sprintf("it crashed (%s, %s%s)", unix.SignalName(status.Signal()), status.Signal(), dumped)
	}
	return fmt.Sprintf("it ended the process with exit status %d", status.ExitStatus())
}
