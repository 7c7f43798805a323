package round

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/disk"
	"github.com/p2pdiloco/p2pdiloco/trainer"
)

// A Saver's private state lies in one file of the data directory, which is replaced whole. A
// failure to save it does not end the node: without it a trainer's inner optimizer begins anew.

// lastSaveTime bounds the last save of a node that leaves. Others take as long as they need: the
// next round waits for them anyway.
const lastSaveTime = time.Minute

// trainerState is the trainer's own state, in a file. It is saved when a round begins, as that
// begins with it; where that takes more than a twentieth of the time, at each second round, or
// third, or as that has it.
type trainerState struct {
	fs       disk.FS
	path     string // of the file; empty: nothing is kept
	log      *slog.Logger
	changed  bool          // since it was saved
	restored bool          // if there was any
	took     time.Duration // to save it
	at       time.Time     // when it was saved
}

// saveShare is the part of the time that may be spent on saving, one in so many.
const saveShare = 20

// due says whether the trainer has the time to save its state.
func (p *trainerState) due() bool { return time.Since(p.at) >= (saveShare-1)*p.took }

// save saves the trainer's state if it has trained since the last time. It goes on when ctx ends,
// for a while.
func (p *trainerState) save(ctx context.Context, t trainer.Trainer) {
	s, ok := t.(trainer.Saver)
	if !ok || p.path == "" || !p.changed {
		return
	}
	ctx, cancel := outlast(ctx, lastSaveTime)
	defer cancel()
	path, began := p.path, time.Now()
	err := s.Save(ctx, path+".new")
	if err == nil {
		err = p.publish(path + ".new")
	}
	p.at = time.Now()
	p.took = p.at.Sub(began)
	switch {
	case err == nil, errors.Is(err, errors.ErrUnsupported):
		p.changed = false
	default:
		// on a full disk, half a file takes space that others need
		_ = p.fs.Remove(path + ".new")
		p.log.Warn("the trainer's own state was not saved: after a restart its inner optimizer goes on from an older "+
			"one", "err", err)
	}
}

// outlast returns a context that ends a while after ctx.
func outlast(ctx context.Context, while time.Duration) (context.Context, context.CancelFunc) {
	longer, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		select {
		case <-longer.Done():
		case <-time.After(while):
			cancel()
		}
	})
	return longer, func() {
		stop()
		cancel()
	}
}

// restore gives a restarted peer's trainer the state that it saved last.
func (p *trainerState) restore(ctx context.Context, t trainer.Trainer) {
	s, ok := t.(trainer.Saver)
	before := p.restored
	p.restored = true
	if !ok || before || p.path == "" || !p.held() {
		return
	}
	switch err := s.Restore(ctx, p.path); {
	case err == nil:
		p.log.Info("restored the trainer's own state", "file", p.path)
	case errors.Is(err, errors.ErrUnsupported), ctx.Err() != nil:
	default:
		p.log.Warn("the trainer's own state is left out: its inner optimizer begins anew", "file", p.path, "err", err)
	}
}

// held says whether there is such a file.
func (p *trainerState) held() bool {
	f, err := p.fs.OpenFile(p.path, os.O_RDONLY)
	return err == nil && f.Close() == nil
}

// publish replaces the last file by one that was written beside it, durably.
func (p *trainerState) publish(from string) error {
	f, err := p.fs.OpenFile(from, os.O_RDWR)
	if err != nil {
		return err
	}
	return disk.Publish(p.fs, f, p.path)
}
