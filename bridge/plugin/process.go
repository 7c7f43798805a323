package plugin

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"time"
)

// hostVariable makes the program a host (host.c).
const hostVariable = "P2PDILOCO_TRAINER_HOST"

// process is a running host, with the pipes to it.
type process struct {
	cmd      *exec.Cmd
	requests *os.File
	replies  *os.File
	exited   chan struct{} // closed when it has ended and the processes that it started were killed
}

// startProcess starts this program again as a host.
func startProcess(cfg Config, vectors *os.File) (_ *process, err error) {
	p := &process{exited: make(chan struct{})}
	var theirs [2]*os.File
	defer func() {
		for _, f := range theirs {
			_ = f.Close() // a nil file returns an error
		}
		if err != nil {
			err = fmt.Errorf("the trainer's process: %w", err)
			_, _ = p.requests.Close(), p.replies.Close()
		}
	}()
	if theirs[0], p.requests, err = os.Pipe(); err != nil {
		return nil, err
	}
	if p.replies, theirs[1], err = os.Pipe(); err != nil {
		return nil, err
	}
	return p, startCommand(p, cfg, []*os.File{theirs[0], theirs[1], vectors})
}

// send writes a request.
func (p *process) send(r request, limit time.Duration) error {
	_ = p.requests.SetWriteDeadline(time.Now().Add(limit)) // a stopped process does not read
	_, err := p.requests.Write(r.append(nil))
	return err
}

// close ends the process if it still runs, and frees everything.
func (p *process) close() error {
	p.kill()
	<-p.exited
	return errors.Join(p.requests.Close(), p.replies.Close())
}

// endedWell says whether the process, which has ended, ended as it was asked to.
func (p *process) endedWell() bool { return p.cmd.ProcessState.Success() }
