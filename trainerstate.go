package p2pdiloco

import (
	"context"
	"errors"
	"os"
	"time"
)

// A Saver's private state lies in one file of the data directory, which is replaced whole. It is worth keeping, not worth failing for:
// without it a trainer's inner optimizer begins anew.

const (
	trainerFile = "trainer.state"
	// trainerSaveTime bounds the last save of a node that leaves. Others take as long as they need: the next round waits for them anyway.
	trainerSaveTime = time.Minute
)

// keepTrainer saves the trainer's state at the borders of rounds that checkpoints are made at, too.
func (n *Node) keepTrainer(ctx context.Context, slotNumber uint64) {
	if slotNumber%n.worker.every == 0 {
		n.saveTrainer(ctx)
	}
}

// saveTrainer saves the trainer's state if it has trained since the last time. It goes on when ctx ends, for a while.
func (n *Node) saveTrainer(ctx context.Context) {
	s, ok := n.cfg.Trainer.(Saver)
	if !ok || n.dir.temporary || !n.trained {
		return
	}
	ctx, cancel := outlast(ctx, trainerSaveTime)
	defer cancel()
	path := n.dir.path(trainerFile)
	err := s.Save(ctx, path+".new")
	if err == nil {
		err = n.dir.publish(path+".new", path)
	}
	switch {
	case err == nil, errors.Is(err, errors.ErrUnsupported):
		n.trained = false
	default:
		_ = n.dir.fs.Remove(path + ".new") // where the disk is full, half a file takes what others need
		n.log.Warn("the trainer's own state was not saved: after a restart its inner optimizer goes on from an older one", "err", err)
	}
}

// outlast is a context that ends a while after ctx has.
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

// restoreTrainer gives a restarted peer's trainer the state that it saved last.
func (n *Node) restoreTrainer(ctx context.Context) {
	s, ok := n.cfg.Trainer.(Saver)
	path, before := n.dir.path(trainerFile), n.restored
	n.restored = true
	if !ok || before || n.dir.temporary || !n.dir.has(trainerFile) {
		return
	}
	switch err := s.Restore(ctx, path); {
	case err == nil:
		n.log.Info("restored the trainer's own state", "file", path)
	case errors.Is(err, errors.ErrUnsupported), ctx.Err() != nil:
	default:
		n.log.Warn("the trainer's own state is left out: its inner optimizer begins anew", "file", path, "err", err)
	}
}

// publish puts a file that was written beside path in its place, durably.
func (d dataDir) publish(from, path string) error {
	f, err := d.fs.OpenFile(from, os.O_RDWR)
	if err != nil {
		return err
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := d.fs.Rename(from, path); err != nil {
		return err
	}
	return d.fs.SyncDir(d.root)
}
