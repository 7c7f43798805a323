package attach

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/p2pdiloco/p2pdiloco/bridge/attach/wire"
	"github.com/p2pdiloco/p2pdiloco/trainer"
)

// The ranks' private state: inner optimizers, random states. It goes with an anchor, as the state
// of the ranks that begin to train from it:
//
//	node: the first TRAIN from an anchor names a new folder
//	rank: takes a snapshot before its first step, and writes it to a file there, beside the steps
//	rank: in mode sync it saves at the round's end, too, in the folder next there, if that is quick
//	node: the next set is told of the newest folder that has the files of all ranks
//
// A folder's name says all that is known of it, so nothing else has to be on disk.

// stateDir is the folder of the folders, in the data directory.
const stateDir = "trainer"

// state says where the ranks' private state lies.
type state struct {
	dir   string
	at    trainer.Anchor // that the next inner steps begin from; zero: the node tells of none
	asked version        // that the ranks of now were asked for last
	sets  int            // that have come
	late  int            // anchors that were passed over since, because the ranks still write
	tell  string         // how the set goes on, which is said with its first TRAIN
}

// version is a folder of it.
type version struct {
	name   string
	number int
	world  int    // how many ranks save there
	slot   uint64 // of the anchor
	step   uint64
	root   string
	end    bool // of the round from that anchor, and not its beginning: it is in the folder next
}

const versionForm = "%d-%d-%d-%d-%s"

// follows says whether a version is of an anchor.
func (v version) follows(at trainer.Anchor) bool {
	return v.end && v.slot+1 == at.Slot || v.begins(at)
}

// begins says whether it is that of the beginning.
func (v version) begins(at trainer.Anchor) bool {
	return !v.end && v.slot == at.Slot && v.root == fmt.Sprintf("%x", at.Root[:8])
}

// path is that of a version's folder.
func (p *state) path(v version) string {
	if v.end {
		return filepath.Join(p.dir, stateDir, v.name, "next")
	}
	return filepath.Join(p.dir, stateDir, v.name)
}

// versions are all that there are, the newest first.
func (p *state) versions() (all []version) {
	entries, _ := os.ReadDir(filepath.Join(p.dir, stateDir))
	for _, e := range entries {
		v := version{name: e.Name()}
		_, _ = fmt.Sscanf(v.name, versionForm, &v.number, &v.slot, &v.step, &v.world, &v.root)
		all = append(all, v) // one of an older release has a number alone: it is never whole
	}
	slices.SortFunc(all, func(a, b version) int { return cmp.Compare(b.number, a.number) })
	return all
}

// look says whether all ranks have answered, and whether all have saved something.
func (p *state) look(v version) (answered, whole bool) {
	whole = v.world > 0
	for rank := range v.world {
		info, err := os.Stat(filepath.Join(p.path(v), fmt.Sprintf("rank-%d", rank)))
		if err != nil {
			return false, false
		}
		whole = whole && info.Size() > 0
	}
	return true, whole
}

// whole are the versions that all ranks have saved, the newest first.
func (p *state) whole() []version {
	return slices.DeleteFunc(p.versions(), func(v version) bool {
		_, whole := p.look(v)
		return !whole
	})
}

// best is the version to go on with from an anchor: that of the anchor itself, or else the newest
// one before it.
func (p *state) best() (best version, found bool) {
	all := p.whole()
	for _, v := range slices.Clone(all) {
		v.end = true
		if _, whole := p.look(v); whole {
			all = append(all, v)
		}
	}
	for _, fits := range []func(version) bool{
		func(v version) bool { return v.begins(p.at) },
		func(v version) bool { return v.follows(p.at) },
		func(v version) bool { return v.slot <= p.at.Slot },
		func(version) bool { return true },
	} {
		if i := slices.IndexFunc(all, fits); i >= 0 {
			return all[i], true
		}
	}
	return best, false
}

// next makes the folder of a new version, and removes all but it and the newest two that are whole.
func (p *state) next(world int) (version, error) {
	all, whole := p.versions(), p.whole()
	v := version{number: 1, world: world, slot: p.at.Slot, step: p.at.Step, root: fmt.Sprintf("%x", p.at.Root[:8])}
	if len(all) > 0 {
		v.number += all[0].number
	}
	v.name = fmt.Sprintf(versionForm, v.number, v.slot, v.step, v.world, v.root)
	for _, old := range all {
		if !slices.Contains(whole[:min(2, len(whole))], old) {
			_ = os.RemoveAll(p.path(old))
		}
	}
	return v, os.MkdirAll(p.path(v), 0o700)
}

// again says whether another set has trained here before the newest.
func (p *state) again() bool {
	_, err := os.Stat(filepath.Join(p.dir, stateDir))
	return p.sets > 1 || err == nil
}

// BeginAt notes which anchor the private state of the next steps' beginning belongs to.
func (t *Trainer) BeginAt(at trainer.Anchor) { t.private.at = at }

// due is the folder that the ranks are to save their private state in before the steps of a TRAIN;
// empty: they are not. Ranks that still write what they were asked for last are not asked.
func (t *Trainer) due() string {
	p, m := &t.private, &t.loop.memory
	if p.at == (trainer.Anchor{}) {
		return ""
	}
	t.goneOn()
	if !m.saves {
		_ = os.MkdirAll(filepath.Join(p.dir, stateDir), 0o700) // again
	}
	if !m.saves || p.asked.name != "" && p.asked.begins(p.at) {
		return ""
	}
	if answered, _ := p.look(p.asked); !answered {
		p.late++
		return ""
	}
	v, err := p.next(m.world)
	var folder string
	if err == nil {
		folder, err = filepath.Abs(p.path(v))
	}
	if err != nil {
		t.cfg.Logger.Warn("the trainer's own state is not saved: after a restart it goes on from an older one",
			"err", err)
		return ""
	}
	t.loop.savesEvery.Store(int64(p.late + 1))
	p.asked, p.late = v, 0
	return folder
}

// saveAfter is how long a save waits for the request before it: a peer that leaves does not wait
// for inner steps that do not end.
const saveAfter = 2 * time.Second

// SaveRanks has the ranks save their private state to files in a folder, rank-0 and so on.
func (t *Trainer) SaveRanks(ctx context.Context, folder string) error {
	soon, stop := context.WithTimeout(ctx, saveAfter)
	defer stop()
	if err := t.settle(soon); err != nil && ctx.Err() == nil {
		return errors.New("the request before has not ended")
	}
	answers, err := t.ask(ctx, &wire.Save{Folder: folder})
	if err != nil {
		return err
	}
	for rank, a := range answers {
		if a.(*wire.Done).Status != wire.StatusOK {
			return errors.ErrUnsupported
		}
		if _, err := os.Stat(filepath.Join(folder, fmt.Sprintf("rank-%d", rank))); err != nil {
			return fmt.Errorf("rank %d says that it has saved, and has not: %w", rank, err)
		}
	}
	return nil
}

// RestoreRanks names a folder to the ranks where world ranks have saved.
func (t *Trainer) RestoreRanks(ctx context.Context, folder string, world int) error {
	answers, err := t.ask(ctx, &wire.Restore{Folder: folder, World: uint64(world)})
	for _, a := range answers {
		if a.(*wire.Done).Status == wire.StatusUnsupported {
			return errors.ErrUnsupported
		}
	}
	return err
}

// handBack names the best private state to a set that was not told of it, unless what its ranks
// have is that of the anchor.
func (t *Trainer) handBack(ctx context.Context) error {
	if !t.fresh || t.private.at == (trainer.Anchor{}) {
		return nil
	}
	p, m := &t.private, &t.loop.memory
	v, found := p.best()
	text := ""
	switch {
	case m.state == wire.StateStays, m.state > 0 && m.state == p.at.Slot:
		text = "optimizer kept"
	case found:
		err := t.restore(ctx, v)
		if text = p.restored(v, err); errors.Is(err, trainer.ErrAnew) || ctx.Err() != nil {
			return err
		}
	case p.again() && m.saves:
		text = "the optimizer begins anew: its state was not saved yet"
	case p.again():
		text = "the optimizer begins anew: this trainer does not save it (keep=)"
	}
	t.fresh, p.tell = false, text
	return nil
}

// restore has all ranks take a version back, or none.
func (t *Trainer) restore(ctx context.Context, v version) error {
	folder, err := filepath.Abs(t.private.path(v))
	if err == nil {
		err = t.RestoreRanks(ctx, folder, v.world)
	}
	if err != nil && ctx.Err() == nil && !errors.Is(err, trainer.ErrAnew) {
		err = errors.Join(err, t.RestoreRanks(ctx, "", 0))
	}
	return err
}

// restored says how the ranks go on with a version.
func (p *state) restored(v version, err error) string {
	switch {
	case errors.Is(err, errors.ErrUnsupported):
		return "the optimizer begins anew: this trainer does not take back what was saved (keep=)"
	case err != nil:
		return "the optimizer begins anew: " + err.Error()
	case v.follows(p.at):
		return "optimizer kept"
	case v.step < p.at.Step:
		return fmt.Sprintf("optimizer kept as it was at step %s: the %s steps since then are lost to it",
			digits(v.step), digits(p.at.Step-v.step))
	}
	return "optimizer kept, from another branch of the run"
}

// goneOn says once how a set goes on.
func (t *Trainer) goneOn() {
	p := &t.private
	if p.tell == "" {
		return
	}
	text := fmt.Sprintf("went on at step %s of %s (slot %d); %s", digits(p.at.Step), digits(p.at.TotalSteps),
		p.at.Slot+1, p.tell)
	p.tell = ""
	t.cfg.Notice(text) // a trainer that has started the node shows its lines
}

// digits writes a number for people.
func digits(n uint64) string {
	if n < 1000 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%s,%03d", digits(n/1000), n%1000)
}
