package swarm

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/sources"
)

const (
	leaveGrace = 5 * time.Second // after the first signal
	stopGrace  = time.Second     // after the second
)

// Launcher starts processes, all from one operating system thread that lives as long as it does. On
// Linux a child dies with the thread that started it.
type Launcher struct {
	jobs chan func()
	done chan struct{}
}

// NewLauncher returns a Launcher, which Close must end.
func NewLauncher() *Launcher {
	l := &Launcher{jobs: make(chan func()), done: make(chan struct{})}
	go func() {
		defer close(l.done)
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		for job := range l.jobs {
			job()
		}
	}()
	return l
}

// Close ends the launcher, and on Linux all processes that it started, so stop them before.
func (l *Launcher) Close() {
	close(l.jobs)
	<-l.done
}

// Process is a child process that was started.
type Process struct {
	Log string // path of its stderr
	// path of its stdout; there is no such file if the command had a stdout already
	Stdout string
	Ended  chan struct{} // closed when it has been waited for

	cmd *exec.Cmd
}

// Start runs a program with args. Its output goes to files NAME.log and NAME.out in dir.
func (l *Launcher) Start(program, dir, name string, args ...string) (*Process, error) {
	return l.StartCommand(exec.Command(program, args...), dir, name)
}

// StartCommand is Start for a prepared command. It sets stderr and the process attributes, and the
// stdout and environment that the command lacks.
func (l *Launcher) StartCommand(cmd *exec.Cmd, dir, name string) (*Process, error) {
	p := &Process{
		cmd:    cmd,
		Log:    filepath.Join(dir, name+".log"),
		Stdout: filepath.Join(dir, name+".out"),
		Ended:  make(chan struct{}),
	}
	if cmd.Stdout == nil {
		stdout, err := os.Create(p.Stdout)
		if err != nil {
			return nil, err
		}
		defer stdout.Close()
		cmd.Stdout = stdout
	}
	stderr, err := os.Create(p.Log)
	if err != nil {
		return nil, err
	}
	defer stderr.Close()
	cmd.Stderr, cmd.SysProcAttr = stderr, attributes()
	// settings in the environment are for this process; its children get all settings as flags
	if cmd.Env == nil {
		cmd.Env = sources.Clean(os.Environ())
	}
	started := make(chan error)
	l.jobs <- func() { started <- cmd.Start() }
	if err := <-started; err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	go func() {
		defer close(p.Ended)
		_ = cmd.Wait() // the state says how it ended
	}()
	return p, nil
}

// PID is the process's ID, also after its end.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Exit is the exit status, -1 after a signal; ok is false while the process runs.
func (p *Process) Exit() (code int, ok bool) {
	select {
	case <-p.Ended:
		return p.cmd.ProcessState.ExitCode(), true
	default:
		return 0, false
	}
}

// Signal sends a signal. A signal that the system does not have kills the process.
func (p *Process) Signal(s os.Signal) {
	if err := p.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		_ = p.cmd.Process.Kill()
	}
}

// StopAll asks the processes to leave, then to stop, then kills them, and returns when all have
// ended. hurry ends the waiting.
func StopAll(processes []*Process, hurry <-chan struct{}) {
	for _, step := range []struct {
		signal os.Signal
		grace  time.Duration
	}{{syscall.SIGTERM, leaveGrace}, {syscall.SIGTERM, stopGrace}, {os.Kill, 0}} {
		for _, p := range processes {
			p.Signal(step.signal)
		}
		if waitAll(processes, step.grace, hurry) {
			return
		}
	}
	for _, p := range processes {
		<-p.Ended
	}
}

func waitAll(processes []*Process, grace time.Duration, hurry <-chan struct{}) bool {
	timeout := time.NewTimer(grace)
	defer timeout.Stop()
	for _, p := range processes {
		select {
		case <-p.Ended:
		case <-timeout.C:
			return false
		case <-hurry:
			return false
		}
	}
	return true
}
