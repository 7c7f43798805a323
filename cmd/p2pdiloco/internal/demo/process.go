package demo

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"time"
)

const (
	leaveGrace = 5 * time.Second // after the first signal
	stopGrace  = time.Second     // after the second
)

// launcher starts processes, all from one operating system thread that lives as long as it does: where a child dies with its
// parent, the parent is the thread that started it.
type launcher struct {
	jobs chan func()
	done chan struct{}
}

func newLauncher() *launcher {
	l := &launcher{jobs: make(chan func()), done: make(chan struct{})}
	go func() {
		defer close(l.done)
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		for job := range l.jobs {
			job()
		}
	}()
	return l
}

func (l *launcher) close() {
	close(l.jobs)
	<-l.done
}

// process is a child, started.
type process struct {
	cmd    *exec.Cmd
	log    string        // path of its stderr
	stdout string        // path of its stdout
	ended  chan struct{} // closed when it has been waited for
}

// start runs this program with args. Its output goes to files NAME.log and NAME.out in dir.
func (l *launcher) start(program, dir, name string, args ...string) (*process, error) {
	p := &process{
		cmd:    exec.Command(program, args...),
		log:    filepath.Join(dir, name+".log"),
		stdout: filepath.Join(dir, name+".out"),
		ended:  make(chan struct{}),
	}
	stdout, err := os.Create(p.stdout)
	if err != nil {
		return nil, err
	}
	defer stdout.Close()
	stderr, err := os.Create(p.log)
	if err != nil {
		return nil, err
	}
	defer stderr.Close()
	p.cmd.Stdout, p.cmd.Stderr, p.cmd.SysProcAttr = stdout, stderr, attributes()
	started := make(chan error)
	l.jobs <- func() { started <- p.cmd.Start() }
	if err := <-started; err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	go func() {
		defer close(p.ended)
		_ = p.cmd.Wait() // the state says how it ended
	}()
	return p, nil
}

// exit is the exit status, -1 after a signal; ok is false while the process runs.
func (p *process) exit() (code int, ok bool) {
	select {
	case <-p.ended:
		return p.cmd.ProcessState.ExitCode(), true
	default:
		return 0, false
	}
}

func (p *process) signal(s os.Signal) {
	if err := p.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		_ = p.cmd.Process.Kill() // a system without such signals
	}
}

// stopAll asks the processes to leave, then to stop, then kills them, and returns when all have ended. hurry ends the
// waiting.
func stopAll(processes []*process, hurry <-chan struct{}) {
	for _, step := range []struct {
		signal os.Signal
		grace  time.Duration
	}{{syscall.SIGTERM, leaveGrace}, {syscall.SIGTERM, stopGrace}, {os.Kill, 0}} {
		for _, p := range processes {
			p.signal(step.signal)
		}
		if waitAll(processes, step.grace, hurry) {
			return
		}
	}
	for _, p := range processes {
		<-p.ended
	}
}

func waitAll(processes []*process, grace time.Duration, hurry <-chan struct{}) bool {
	timeout := time.NewTimer(grace)
	defer timeout.Stop()
	for _, p := range processes {
		select {
		case <-p.ended:
		case <-timeout.C:
			return false
		case <-hurry:
			return false
		}
	}
	return true
}
