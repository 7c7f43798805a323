package attach

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/p2pdiloco/p2pdiloco/bridge/attach/wire"
	"github.com/p2pdiloco/p2pdiloco/trainer"
)

// The ranks' private state: inner optimizers, random states, places in the data. Each save is a
// folder of its own, with a file of each rank. The file that the node keeps names the newest one.

// stateDir is the folder of the folders, in the data directory.
const stateDir = "trainer"

// state says where the ranks' private state lies.
type state struct {
	dir    string
	newest manifest
	last   int // number of the newest folder
}

// manifest is the file that the node keeps, in JSON.
type manifest struct {
	Folder string // below the data directory; empty: there is none
	World  int    // how many ranks have saved there
}

// Save has the ranks save their private state, and writes where it lies to a file at path.
func (t *Trainer) Save(ctx context.Context, path string) error {
	p := &t.private
	if p.last == 0 {
		p.last = p.highest()
	}
	p.last++
	m := manifest{filepath.Join(stateDir, strconv.Itoa(p.last)), t.loop.memory.world}
	folder, err := filepath.Abs(filepath.Join(p.dir, m.Folder))
	if err == nil {
		err = os.MkdirAll(folder, 0o700)
	}
	if err != nil {
		return err
	}
	err = t.SaveRanks(ctx, folder)
	if err == nil {
		err = m.write(path)
	}
	if errors.Is(err, trainer.ErrAnew) {
		err = errors.ErrUnsupported // it is gone with the ranks
	}
	if err != nil {
		return errors.Join(err, os.RemoveAll(folder))
	}
	p.newest = m
	p.tidy()
	return nil
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

func (m manifest) write(path string) error {
	text, err := json.Marshal(m)
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(text, '\n'), 0o600)
}

// tidy removes folders, but the newest and the one before: the node may have only that one's
// manifest on disk yet.
func (p *state) tidy() {
	for number := range p.numbers {
		if number < p.last-1 {
			_ = os.RemoveAll(filepath.Join(p.dir, stateDir, strconv.Itoa(number)))
		}
	}
}

// numbers are those of all folders.
func (p *state) numbers(yield func(int) bool) {
	entries, _ := os.ReadDir(filepath.Join(p.dir, stateDir))
	for _, e := range entries {
		if n, err := strconv.Atoi(e.Name()); err == nil && !yield(n) {
			return
		}
	}
}

func (p *state) highest() (most int) {
	for number := range p.numbers {
		most = max(most, number)
	}
	return most
}

// Restore reads where the private state lies that was saved last. The ranks are told before their
// next Load.
func (t *Trainer) Restore(_ context.Context, path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var m manifest
	if err := json.Unmarshal(text, &m); err != nil {
		return fmt.Errorf("%s was not written for a trainer that attaches: %w", path, err)
	}
	t.private.newest = m
	return nil
}

// RestoreRanks names a folder to the ranks where world ranks have saved.
func (t *Trainer) RestoreRanks(ctx context.Context, folder string, world int) error {
	_, err := t.ask(ctx, &wire.Restore{Folder: folder, World: uint64(world)})
	return err
}

// handBack names the newest private state to a set that was not told of it.
func (t *Trainer) handBack(ctx context.Context) error {
	m := t.private.newest
	if !t.fresh || m.Folder == "" {
		t.fresh = false
		return nil
	}
	folder, err := filepath.Abs(filepath.Join(t.private.dir, m.Folder))
	if err != nil {
		return err
	}
	err = t.RestoreRanks(ctx, folder, m.World)
	if errors.Is(err, trainer.ErrAnew) || ctx.Err() != nil {
		return err
	}
	t.fresh = false
	if err != nil {
		t.cfg.Logger.Warn("a rank's own state is left out: its inner optimizer begins anew", "err", err)
	}
	return nil
}
