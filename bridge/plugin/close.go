package plugin

import (
	"errors"
	"os"
	"time"
)

// closeGrace is for what is under way at Close, and for destroy.
const closeGrace = 30 * time.Second

// Close destroys the trainer and ends its process. The node that worked with it must be closed: its vectors are gone. It returns
// what went wrong in destroy, and nothing new of a trainer that had failed before.
func (t *Trainer) Close() error {
	t.closing.Do(func() {
		close(t.closed)
		t.turn <- struct{}{}
		t.closeErr = t.close()
		t.release()
	})
	return t.closeErr
}

func (t *Trainer) close() error {
	var errs []error
	if t.host != nil {
		errs = append(errs, t.destroy(), t.host.close())
	}
	if t.memory != nil {
		errs = append(errs, t.memory.close())
	}
	if t.temporary {
		errs = append(errs, os.RemoveAll(t.cfg.DataDir))
	}
	return errors.Join(errs...)
}

// destroy ends the trainer as it would have it, as long as it can be waited for.
func (t *Trainer) destroy() error {
	if p := t.pending; p != nil {
		p.cancelled()
		select {
		case <-p.done:
			t.ended(p)
		case <-time.After(min(closeGrace, t.cfg.Timeout)):
			t.host.kill()
			<-p.done
			return nil // it was asked for nothing but an early end, and the peer is going
		}
	}
	if t.host.dead != nil {
		return nil
	}
	c := &call{request: request{op: opClose}, doing: "destroy"}
	if t.failed {
		c.arg[0] = 1
	}
	t.host.timeout = min(t.host.timeout, closeGrace)
	<-t.host.start(c).done
	if errors.Is(c.err, ErrHung) {
		return t.unlessFailed(c.err)
	}
	select {
	case <-t.host.exited:
	case <-time.After(t.host.timeout):
		t.host.kill()
		<-t.host.exited
	}
	if !t.host.endedWell() {
		return t.unlessFailed(t.host.fault(c, t.host.ending(), ErrCrashed))
	}
	return nil
}

func (t *Trainer) unlessFailed(err error) error {
	if t.failed {
		return nil
	}
	return err
}
