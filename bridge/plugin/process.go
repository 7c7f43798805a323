package plugin

import (
	"os"
	"os/exec"
	"time"
)

// hostVariable makes the program a host (host.c).
const hostVariable = "P2PDILOCO_TRAINER_HOST"

// process is a running host.
type process struct {
	cmd    *exec.Cmd
	exited chan struct{} // closed when it has ended and the processes that it started were killed
}

// startProcess starts this program again as a host.
func startProcess(cfg Config, note *os.File) (*process, error) {
	p := &process{exited: make(chan struct{})}
	if err := startCommand(p, cfg, note); err != nil {
		return nil, err
	}
	return p, nil
}

// waits says whether the process ends within a time.
func (p *process) waits(limit time.Duration) bool {
	select {
	case <-p.exited:
		return true
	case <-time.After(limit):
		return false
	}
}

// end ends the process if it still runs.
func (p *process) end() {
	p.kill()
	<-p.exited
}

// endedWell says whether the process, which has ended, ended as it was asked to.
func (p *process) endedWell() bool { return p.cmd.ProcessState.Success() }
