//go:build cgo && unix

package cgo

// #include <stdlib.h>
// #include "host.h"
import "C"

import (
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Close destroys the trainer.
func (t *libraryTrainer) Close() error {
	if !t.closed {
		t.closed = true
		t.closeErr = t.close()
	}
	return t.closeErr
}

func (t *libraryTrainer) close() (err error) {
	if t.thread.calls == nil { // nothing was opened
		return t.removes()
	}
	idle := t.idles()
	close(t.stop) // a call that is left alone, or destroy, does not end the process
	t.watches.Wait()
	if idle {
		idle, err = t.destroys()
	}
	close(t.thread.calls)
	if !idle { // the call that does not end has the thread, and the memory
		return err
	}
	<-t.thread.ended
	if t.memory != nil {
		err = errors.Join(err, unix.Munmap(t.memory))
	}
	return errors.Join(err, t.record.close(), t.removes())
}

func (t *libraryTrainer) removes() error {
	if !t.temporary {
		return nil
	}
	return os.RemoveAll(t.cfg.DataDir)
}

// idles cancels the call under way, and says whether it has ended.
func (t *libraryTrainer) idles() bool {
	p := t.thread.pending
	select {
	case <-p.done:
		return true
	default:
	}
	if p.cancellable {
		return t.cancels(p, t.patience())
	}
	return false // it is one of Open's, which its caller did not wait for
}

func (t *libraryTrainer) patience() time.Duration { return min(closeGrace, t.cfg.Timeout) }

// destroys unregisters the memory and destroys the trainer, and says whether that has ended. A
// trainer that has failed is destroyed alone, and has no second error.
func (t *libraryTrainer) destroys() (ended bool, err error) {
	if t.trainer == nil {
		return true, nil
	}
	calls := []*call{newCall("destroy", func() error {
		C.host_destroy(t.api, t.trainer)
		return nil
	})}
	if t.registered && t.fault == nil && t.api.unregister_memory != nil {
		calls = append([]*call{newCall("unregister_memory", t.unregister)}, calls...)
	}
	for _, c := range calls {
		t.thread.calls <- c
		select {
		case <-c.done:
			err = errors.Join(err, c.err)
		case <-time.After(t.patience()):
			return false, t.faulty(c.doing, "no progress for %v, so it was left alone: what it holds is free when the "+
				"process has ended", t.patience())
		}
	}
	if t.fault != nil {
		err = nil
	}
	return true, err
}
