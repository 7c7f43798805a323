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

// A Saver's private state lies where package private says. A failure to save it does not end the
// node: without it a trainer's inner optimizer begins anew.

// trainerState is the trainer's own state. It is saved before the first steps from an anchor; where
// that takes longer than the steps, of each second anchor, or third, or as that has it. In mode
// sync it is saved after the last steps, too, if that is quick.
type trainerState struct {
	PrivateState
	fs       disk.FS
	log      *slog.Logger
	restored bool          // if there was any
	took     time.Duration // to save it
	begun    time.Time     // when it was saved before steps
}

// The part of the time that may be spent on saving, one in so many.
const (
	beginShare = 2
	endShare   = 20
)

// saver is the trainer, if its state is to be kept.
func (m *model) saver() (s trainer.Saver, ok bool) {
	s, ok = m.Trainer.(trainer.Saver)
	return s, ok && m.private.Dir != ""
}

// begin saves the trainer's state before the first steps from an anchor, and says how a trainer
// that was restarted goes on.
func (m *model) begin(ctx context.Context) {
	m.save(ctx, beginShare, func() (string, error) {
		folder, err := m.private.Due(1)
		if folder != "" {
			m.private.begun = time.Now()
		}
		return folder, err
	})
	if text := m.private.GoneOn(); text != "" {
		m.emit("trainer.resumed", map[string]any{"detail": text})
	}
}

// save saves the trainer's state in a folder; empty: not now.
func (m *model) save(ctx context.Context, share time.Duration, where func() (folder string, err error)) {
	p, began := &m.private, time.Now()
	s, ok := m.saver()
	if !ok || began.Sub(p.begun) < share*p.took {
		return
	}
	folder, err := where()
	if folder != "" && err == nil {
		err = p.write(ctx, s, RankFile(folder, 0))
		p.took = time.Since(began)
	}
	if err != nil && ctx.Err() == nil && !errors.Is(err, errors.ErrUnsupported) {
		p.log.Warn("the trainer's own state was not saved: after a restart its inner optimizer goes on from an "+
			"older one", "err", err)
	}
}

// write writes the state to a file, which has its name when it is whole.
func (p *trainerState) write(ctx context.Context, s trainer.Saver, path string) error {
	err := s.Save(ctx, path+".new")
	if err == nil {
		var f disk.File
		if f, err = p.fs.OpenFile(path+".new", os.O_RDWR); err == nil {
			err = disk.Publish(p.fs, f, path)
		}
	}
	if err != nil {
		// on a full disk, half a file takes space that others need
		_ = p.fs.Remove(path + ".new")
		p.Asked = SavedState{}
	}
	return err
}

// restore gives a restarted peer's trainer the state that belongs to the anchor, or the newest one.
func (m *model) restore(ctx context.Context) {
	p := &m.private
	s, ok := m.saver()
	if !ok || p.restored {
		return
	}
	p.restored = true
	_ = p.HandBack(false, true, func(folder string, _ int) error { return s.Restore(ctx, RankFile(folder, 0)) })
}
