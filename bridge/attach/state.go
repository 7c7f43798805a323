package attach

import (
	"context"
	"errors"
	"os"

	"github.com/p2pdiloco/p2pdiloco/bridge/attach/wire"
	"github.com/p2pdiloco/p2pdiloco/trainer"
)

// The ranks' private state lies where package private says. A rank takes a snapshot before its
// first step from an anchor, and writes it beside the steps. In mode sync it saves at the round's
// end, too, if that is quick.

// stateDir is the folder of it, in the data directory.
const stateDir = "trainer"

// BeginAt notes which anchor the private state of the next steps' beginning belongs to.
func (t *Trainer) BeginAt(at trainer.Anchor) { t.private.At = at }

// due is the folder that the ranks are to save their private state in before the steps of a TRAIN;
// empty: they are not.
func (t *Trainer) due() string {
	p, m := &t.private, &t.loop.memory
	if text := p.GoneOn(); text != "" {
		t.loop.cfg.Notice(text) // a trainer that has started the node shows its lines
	}
	if !m.saves {
		if p.At != (trainer.Anchor{}) {
			_ = os.MkdirAll(p.Dir, 0o700) // a trainer has been here
		}
		return ""
	}
	folder, err := p.Due(m.world)
	if err != nil {
		t.loop.cfg.Logger.Warn("the trainer's own state is not saved: after a restart it goes on from an older one",
			"err", err)
	}
	t.loop.savesEvery.Store(int64(p.Every))
	return folder
}

// handBack names the best private state to a set that was not told of it, unless what its ranks
// have is that of the anchor. All ranks take it back, or none.
func (t *Trainer) handBack(ctx context.Context) error {
	p, m := &t.private, &t.loop.memory
	if !t.fresh || p.At == (trainer.Anchor{}) {
		return nil
	}
	kept := m.state == wire.StateStays || m.state > 0 && m.state == p.At.Slot
	err := p.HandBack(kept, m.saves, func(folder string, world int) error {
		err := t.restore(ctx, folder, world)
		if err != nil && ctx.Err() == nil && !errors.Is(err, trainer.ErrAnew) {
			err = errors.Join(err, t.restore(ctx, "", 0))
		}
		return err
	})
	if errors.Is(err, trainer.ErrAnew) || ctx.Err() != nil {
		return err
	}
	t.fresh = false
	return nil
}

// restore names a folder to the ranks where world ranks have saved.
func (t *Trainer) restore(ctx context.Context, folder string, world int) error {
	answers, err := t.ask(ctx, &wire.Restore{Folder: folder, World: uint64(world)})
	for _, a := range answers {
		if a.(*wire.Done).Status == wire.StatusUnsupported {
			return errors.ErrUnsupported
		}
	}
	return err
}
