package plugin

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/p2pdiloco/p2pdiloco/bridge/attach"
	"github.com/p2pdiloco/p2pdiloco/bridge/attach/box"
	"github.com/p2pdiloco/p2pdiloco/bridge/attach/wire"
)

const (
	// closeGrace is how long Close waits for the call under way and for destroy.
	closeGrace = 30 * time.Second
	// hangGrace is how long a process has to end after its cancel, or after its socket has closed.
	hangGrace = 2 * time.Second
)

// why finds out how the host was lost.
func (t *Trainer) why(err error) error {
	if f, ok := errors.AsType[box.Fault](err); ok && f.Code == wire.CodeTimeout {
		return t.hung()
	}
	return t.lost()
}

// hung ends a process that makes no progress. The library was asked to end its run.
func (t *Trainer) hung() error {
	t.process.waits(min(hangGrace, t.cfg.Timeout))
	t.process.end()
	return t.faulty(fmt.Sprintf("no progress for %v%s, so it was ended: it hangs, or needs more time than "+
		"--trainer-timeout gives it", t.cfg.Timeout, t.place()), ErrHung)
}

// lost is the fault of a process that has ended, is ending, or has closed its socket. A process
// that says why it ends has a trainer to destroy before.
func (t *Trainer) lost() error {
	if n, err := readNote(t.note); err == nil && text(n.Problem[:]) != "" {
		return t.faulty(text(n.Problem[:]), nil)
	}
	if !t.process.waits(hangGrace) {
		if t.process.end(); t.process.killed() {
			return t.faulty("it closed its socket", nil)
		}
	}
	return t.faulty(t.process.ending()+t.place()+": what it printed stands above", ErrCrashed)
}

// failed is the fault of a call after which the trainer can be used further.
func (t *Trainer) failed(err *attach.RankError) error {
	n, unread := readNote(t.note)
	if unread != nil {
		return errors.Join(err, unread)
	}
	return t.faulty(text(n.Problem[:]), nil)
}

// faulty blames what the library did last.
func (t *Trainer) faulty(problem string, err error) error {
	return &Fault{Library: t.cfg.Path, Doing: t.doing(), Problem: problem, Err: err}
}

// doing is the function of the library that runs, or ran last.
func (t *Trainer) doing() string {
	n, err := readNote(t.note)
	if err != nil {
		return err.Error()
	}
	return text(n.Doing[:])
}

// place is how far a run came.
func (t *Trainer) place() string {
	if !strings.HasPrefix(t.doing(), "run ") {
		return ""
	}
	return fmt.Sprintf(" after %d of %d steps", t.StepsDone(), t.steps)
}

// Close destroys the trainer and ends its process. The node that worked with it must be closed
// before, because Close unmaps its vectors. Close returns the error of destroy, unless the trainer
// had failed before.
func (t *Trainer) Close() error {
	if !t.closed {
		t.closed = true
		t.closeErr = t.close()
	}
	return t.closeErr
}

func (t *Trainer) close() error {
	var errs []error
	if t.process != nil {
		t.server.End(wire.CodeClosed, "the peer has left the run")
		if err := t.destroyed(); t.fault == nil {
			errs = append(errs, err)
		}
	}
	t.watch.Wait()
	if t.server != nil {
		errs = append(errs, t.server.Close())
	}
	if t.note != nil {
		errs = append(errs, t.note.Close())
	}
	if t.temporary {
		errs = append(errs, os.RemoveAll(t.cfg.DataDir))
	}
	return errors.Join(errs...)
}

// destroyed waits for the end of the process, whose call under way was cancelled.
func (t *Trainer) destroyed() error {
	limit := min(closeGrace, t.cfg.Timeout)
	ended := t.process.waits(limit)
	destroys := t.doing() == "destroy"
	t.process.end()
	switch {
	case !ended && destroys:
		return t.faulty(fmt.Sprintf("no progress for %v, so it was ended", limit), ErrHung)
	case ended && !t.process.endedWell():
		return t.lost()
	}
	return nil // a call that was only asked to end early may not have ended: the peer is leaving
}
