package lab

import (
	"os"
	"os/exec"
	"strings"
)

// Process is a child process that was started.
type Process struct {
	Log string // path of its stderr
	// path of its stdout; there is no such file if the command had a stdout already
	Stdout string
	Ended  chan struct{} // closed when it has been waited for

	cmd *exec.Cmd
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

// Signal sends a signal, unless the process has ended.
func (p *Process) Signal(s os.Signal) { _ = p.cmd.Process.Signal(s) }

const (
	tailBytes = 4 << 10
	tailLines = 12
)

// Tail is the end of a log, indented.
func Tail(path string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	b = b[max(0, len(b)-tailBytes):]
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	return "    " + strings.Join(lines[max(0, len(lines)-tailLines):], "\n    ")
}
