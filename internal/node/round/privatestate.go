package round

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/p2pdiloco/p2pdiloco/internal/disk"
	"github.com/p2pdiloco/p2pdiloco/trainer"
)

// PrivateState keeps the private state of a trainer on disk: inner optimizers, random states. It
// goes with an anchor, as the state of the ranks that begin to train from it. A trainer that is no
// set of ranks is rank 0 of one.
//
//	node: before the first steps from an anchor, Due makes a new folder
//	rank: writes its state to a file there, rank-0 and so on; empty: it cannot
//	rank: in mode sync it may save at the round's end, too, in the folder next there
//	node: HandBack names the newest folder that has the files of all ranks to the next set
//
// A folder's name says all that is known of it, so nothing else has to be on disk.
type PrivateState struct {
	Dir   string         // of the folders, an absolute path
	At    trainer.Anchor // that the next inner steps begin from; zero: nothing is kept
	Asked SavedState     // that the ranks of now were asked for last
	Every int            // in how many slots the state was saved once, lately

	late int    // anchors that were passed over since, because the ranks still write
	tell string // how the ranks go on, which is said once
}

// SavedState is a folder of it.
type SavedState struct {
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
func (v SavedState) follows(at trainer.Anchor) bool {
	return v.end && v.slot+1 == at.Slot || v.begins(at)
}

// begins says whether it is that of the beginning.
func (v SavedState) begins(at trainer.Anchor) bool {
	return !v.end && v.slot == at.Slot && v.root == fmt.Sprintf("%x", at.Root[:8])
}

// path is that of a version's folder.
func (p *PrivateState) path(v SavedState) string {
	if v.end {
		return filepath.Join(p.Dir, v.name, "next")
	}
	return filepath.Join(p.Dir, v.name)
}

// versions are all that there are, the newest first.
func (p *PrivateState) versions() (all []SavedState) {
	entries, _ := os.ReadDir(p.Dir)
	for _, e := range entries {
		v := SavedState{name: e.Name()}
		_, _ = fmt.Sscanf(v.name, versionForm, &v.number, &v.slot, &v.step, &v.world, &v.root)
		all = append(all, v) // what is no version has no ranks, and is never whole
	}
	slices.SortFunc(all, func(a, b SavedState) int { return cmp.Compare(b.number, a.number) })
	return all
}

// RankFile is the file of a rank in a folder.
func RankFile(folder string, rank int) string {
	return filepath.Join(folder, fmt.Sprintf("rank-%d", rank))
}

// look says whether all ranks have answered, and whether all have saved something.
func (p *PrivateState) look(v SavedState) (answered, whole bool) {
	whole = v.world > 0
	for rank := range v.world {
		info, err := os.Stat(RankFile(p.path(v), rank))
		if err != nil {
			return false, false
		}
		whole = whole && info.Size() > 0
	}
	return true, whole
}

// whole are the versions that all ranks have saved, the newest first.
func (p *PrivateState) whole() []SavedState {
	return slices.DeleteFunc(p.versions(), func(v SavedState) bool {
		_, whole := p.look(v)
		return !whole
	})
}

// best is the version to go on with from an anchor: that of the anchor itself, or else the newest
// one before it.
func (p *PrivateState) best() (best SavedState, found bool) {
	all := p.whole()
	for _, v := range slices.Clone(all) {
		v.end = true
		if _, whole := p.look(v); whole {
			all = append(all, v) // what is no version has no ranks, and is never whole
		}
	}
	for _, fits := range []func(SavedState) bool{
		func(v SavedState) bool { return v.begins(p.At) },
		func(v SavedState) bool { return v.follows(p.At) },
		func(v SavedState) bool { return v.slot <= p.At.Slot },
		func(SavedState) bool { return true },
	} {
		if i := slices.IndexFunc(all, fits); i >= 0 {
			return all[i], true
		}
	}
	return best, false
}

// Due makes the folder of a new version, if one of the anchor is due, and removes all but it and
// the newest two that are whole. Empty: none is due. Ranks that still write what they were asked
// for last are not asked.
func (p *PrivateState) Due(world int) (folder string, err error) {
	if p.Asked.begins(p.At) || p.At == (trainer.Anchor{}) {
		return "", nil
	}
	if answered, _ := p.look(p.Asked); !answered {
		p.late++
		return "", nil
	}
	all, whole := p.versions(), p.whole()
	v := SavedState{number: 1, world: world, slot: p.At.Slot, step: p.At.Step, root: fmt.Sprintf("%x", p.At.Root[:8])}
	if len(all) > 0 {
		v.number += all[0].number
	}
	v.name = fmt.Sprintf(versionForm, v.number, v.slot, v.step, v.world, v.root)
	for _, old := range all {
		if !slices.Contains(whole[:min(2, len(whole))], old) {
			_ = os.RemoveAll(p.path(old))
		}
	}
	if err := os.MkdirAll(p.path(v), 0o700); err != nil {
		return "", err
	}
	p.Asked, p.Every, p.late = v, p.late+1, 0
	return p.path(v), nil
}

// End makes the folder for the state at the end of the round whose beginning was asked for last.
// The slot may be agreed before the next steps begin. Empty: that round is another one.
func (p *PrivateState) End() (folder string, err error) {
	if v := p.Asked; v.begins(p.At) {
		v.end = true
		folder = p.path(v)
		err = os.MkdirAll(folder, 0o700)
	}
	return folder, err
}

// HandBack has the best version restored in ranks that were not told of any, unless what they have
// is that of the anchor (kept). saves says whether they save what they have.
func (p *PrivateState) HandBack(kept, saves bool, restore func(folder string, world int) error) (err error) {
	v, found := p.best()
	_, missing := os.Stat(p.Dir) // nobody has trained here before
	p.tell = ""
	switch {
	case kept:
		p.tell = "optimizer kept"
	case found:
		err = restore(p.path(v), v.world)
		p.tell = p.restored(v, err)
	case missing == nil && saves:
		p.tell = "the optimizer begins anew: its state was not saved"
	case missing == nil:
		p.tell = "the optimizer begins anew: this trainer does not save it (keep=)"
	}
	return err
}

// restored says how the ranks go on with a version.
func (p *PrivateState) restored(v SavedState, err error) string {
	switch {
	case errors.Is(err, errors.ErrUnsupported):
		return "the optimizer begins anew: this trainer does not take back what was saved (keep=)"
	case err != nil:
		return "the optimizer begins anew: " + err.Error()
	case v.follows(p.At):
		return "optimizer kept"
	case v.step < p.At.Step:
		return fmt.Sprintf("optimizer kept as it was at step %s: the %s steps since then are lost to it",
			humanize.Comma(int64(v.step)), humanize.Comma(int64(p.At.Step-v.step)))
	}
	return "optimizer kept, from another branch of the run"
}

// GoneOn says once how the ranks go on.
func (p *PrivateState) GoneOn() (text string) {
	if p.tell != "" {
		text = fmt.Sprintf("went on at step %s of %s (slot %d); %s", humanize.Comma(int64(p.At.Step)),
			humanize.Comma(int64(p.At.TotalSteps)), p.At.Slot+1, p.tell)
	}
	p.tell = ""
	return text
}

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
