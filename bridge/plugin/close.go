package plugin

import (
	"errors"
	"os"
)

// Close destroys the trainer and ends its process. The node that worked with it must be closed
// before, because Close unmaps its vectors. Close returns the error of destroy, unless the trainer
// had failed before.
func (t *Trainer) Close() error {
	t.closing.Do(func() {
		close(t.turns.closed)
		t.turns.turn <- struct{}{}
		t.closeErr = t.close()
		t.turns.release()
	})
	return t.closeErr
}

func (t *Trainer) close() error {
	var errs []error
	if t.turns.host != nil {
		errs = append(errs, t.turns.destroy(t.cfg.Timeout), t.turns.host.close())
	}
	if t.memory != nil {
		errs = append(errs, t.memory.close())
	}
	if t.temporary {
		errs = append(errs, os.RemoveAll(t.cfg.DataDir))
	}
	return errors.Join(errs...)
}
