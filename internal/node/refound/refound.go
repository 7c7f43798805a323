// Package refound founds a run again from the newest state that a peer holds, where too few
// electors live to go on with the old run: liars could not be told from those that are gone, so
// people decide who goes on. The new run has the old one's name and another ID. Its spec follows
// from the old spec, a slot, and the peers that found it, so all of them make the same one by
// themselves.
package refound

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"

	"github.com/p2pdiloco/p2pdiloco/internal/disk"
	"github.com/p2pdiloco/p2pdiloco/internal/node/datadir"
	"github.com/p2pdiloco/p2pdiloco/internal/node/modelfile"
	"github.com/p2pdiloco/p2pdiloco/internal/node/rules"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/chain"
	"github.com/p2pdiloco/p2pdiloco/membership/store"
	"github.com/p2pdiloco/p2pdiloco/spec"
)

// Config says what run to found.
type Config struct {
	Dir      string        // the data directory of a peer that does not run
	Self     slot.PeerID   // the peer
	Slot     *uint64       // whose state it begins with; nil: the newest on disk
	Founders []slot.PeerID // the peers that are left, this one too
	Logger   *slog.Logger
}

// Result says what was made.
type Result struct {
	Old, New spec.Spec
	Slot     uint64    // of the old run, whose model the new one begins with
	State    slot.Root // of that slot
	Kept     string    // folder with the files of the old run
}

// moved are the files of a run beside its spec.
var moved = []string{datadir.StateFolder, datadir.LedgerFile, datadir.TrainerFile, datadir.OrdersFile, datadir.LostFile}

// Found makes a data directory one of the new run. What it has of the old run is kept in a folder
// in it. That is made before anything is moved, and the spec is replaced last. If a process dies
// meanwhile, no peer starts from the directory until Found is called again, which makes it one of
// the old run first.
func Found(ctx context.Context, cfg Config) (r Result, err error) {
	dir, err := datadir.Open(disk.OS, cfg.Dir)
	if err != nil {
		return r, errors.Join(fmt.Errorf("%w: the peer may still be running; end it first (Ctrl-C), it cannot go on",
			err), dir.Close())
	}
	defer func() { err = errors.Join(err, dir.Close()) }()
	old, err := dir.LoadSpec(spec.Spec{})
	if err != nil {
		return r, err
	}
	if old == nil {
		return r, fmt.Errorf("%s holds no run.spec: it belongs to no run", cfg.Dir)
	}
	r.Old, r.Kept = *old, dir.KeptRun(old.RunID())
	if err := takeBack(dir, *old); err != nil {
		return r, fmt.Errorf("what an interrupted call has moved to %s does not come back: %w", r.Kept, err)
	}
	if dir.Has(datadir.InitialFile) && !dir.Has(datadir.LedgerFile) {
		return r, fmt.Errorf("%s is one of the new run already: start the peer as before", cfg.Dir)
	}
	if err := cfg.check(r.Old); err != nil {
		return r, err
	}
	model := dir.Path(datadir.InitialFile)
	e, err := modelfile.Export(ctx, modelfile.ExportConfig{
		DataDir: cfg.Dir, Out: model, Slot: cfg.Slot, Force: true, Logger: cfg.Logger,
	})
	if err != nil && cfg.Slot != nil {
		err = fmt.Errorf("nothing was done: the model of slot %d was not written (%w). Where a peer does not hold "+
			"that slot, give the newest slot that all of the peers hold, with the same --slot for all", *cfg.Slot, err)
	}
	if err != nil {
		return r, err
	}
	r.Slot, r.State = e.Slot, e.StateRoot
	if r.New, err = Spec(r.Old, e.Slot, e.StateRoot, cfg.Founders); err != nil {
		return r, err
	}
	r.New.Init = ""
	if r.New, err = modelfile.FixInitial(r.New, model); err != nil {
		return r, err
	}
	return r, move(dir, r)
}

// check refuses founders that are no members of the run, and those that are enough to go on with
// it.
func (cfg Config) check(old spec.Spec) error {
	saved, err := store.Read(cfg.Dir, old.RunID())
	if err != nil {
		return err
	}
	ledger, err := chain.Resume(rules.Ledger(old, old.RunID()), slot.Root{}, saved.Past, saved.Chain)
	if err != nil {
		return err
	}
	tip := ledger.Tip()
	for _, p := range cfg.Founders {
		if slot.Find(tip.Members, p) < 0 && slot.Find(tip.Absent, p) < 0 {
			return fmt.Errorf("%s is no member of run %s by the newest record here: name those that are left "+
				"(p2pdiloco id prints the ID of a peer)", p, old.Name)
		}
	}
	left := func(m slot.Member) bool { return slices.Contains(cfg.Founders, m.Peer) }
	switch {
	case !slices.Contains(cfg.Founders, cfg.Self):
		return fmt.Errorf("this peer, %s, is not among those that are to go on: name it, too", cfg.Self)
	case !ledger.MajorityForks() || ledger.MayFork(left):
		return fmt.Errorf("these peers are enough to go on with run %s itself, which loses nothing: start them, and, "+
			"if they stay paused, p2pdiloco recover", old.Name)
	}
	return nil
}

// Spec is the spec of the run that goes on from a state of another one, but for the root of its
// initial state: the same fields, with the rounds that are left. It does not wait for more peers
// than have to sign its first record.
func Spec(old spec.Spec, at uint64, state slot.Root, founders []slot.PeerID) (spec.Spec, error) {
	s, done := old, at/max(old.Fragments, 1)
	if done >= old.Rounds {
		return s, fmt.Errorf("run %s has done all of its %d rounds: take its model with p2pdiloco export", old.Name,
			old.Rounds)
	}
	run := old.RunID()
	seed := slot.Hash(append(append([]byte("p2pdiloco/recover/1"), run[:]...), state[:]...))
	s.Nonce, s.Seed = binary.BigEndian.Uint64(seed[:]), 1+uint64(binary.BigEndian.Uint32(seed[8:]))
	s.Rounds = old.Rounds - done
	s.Founders = slices.Compact(slices.Sorted(slices.Values(founders)))
	s.StartPeers = min(old.StartPeers, uint64(len(s.Founders)/2+1))
	s.MinPeers = min(old.MinPeers, s.StartPeers)
	return s, nil
}

// move puts the old run's files aside, and the new spec in the place of the old one.
func move(dir datadir.Dir, r Result) error {
	if err := r.New.Validate(); err != nil {
		return err
	}
	if err := errors.Join(dir.FS.Mkdir(r.Kept), dir.FS.SyncDir(dir.Root)); err != nil {
		return err
	}
	if err := rename(dir.Root, r.Kept); err != nil {
		return err
	}
	if err := datadir.At(dir.FS, r.Kept).SaveSpec(r.Old); err != nil {
		return err
	}
	if err := errors.Join(dir.FS.SyncDir(r.Kept), dir.FS.SyncDir(dir.Root)); err != nil {
		return err
	}
	return dir.ReplaceSpec(r.New)
}

// takeBack undoes what an interrupted call has moved. Its folder goes last: until then the
// directory counts as interrupted.
func takeBack(dir datadir.Dir, old spec.Spec) error {
	kept := datadir.At(dir.FS, dir.KeptRun(old.RunID()))
	if _, err := os.Lstat(kept.Root); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err := rename(kept.Root, dir.Root); err != nil {
		return err
	}
	if err := errors.Join(dir.FS.SyncDir(kept.Root), dir.FS.SyncDir(dir.Root), kept.RemoveSpec()); err != nil {
		return err
	}
	return errors.Join(dir.FS.Remove(kept.Root), dir.FS.SyncDir(dir.Root))
}

// rename moves what there is of a run's files from one folder to another.
func rename(from, to string) error {
	for _, name := range moved {
		if err := os.Rename(filepath.Join(from, name), filepath.Join(to, name)); err != nil &&
			!errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}
