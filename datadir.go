package p2pdiloco

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/p2pdiloco/p2pdiloco/internal/disk"
	"github.com/p2pdiloco/p2pdiloco/p2p"
)

// dataDir is where a peer keeps what must outlive its process:
//
//	lock         held while a process uses the directory
//	identity     libp2p key
//	peers        addresses of peers met
//	run.spec     the settled run spec
//	preset       name of the run's timing
//	ledger.log   incarnation, promises, votes, certified records
//	orders       of this peer's operator, about who may be in the run
//	ledger.lock  held while that log is open
//	state/       checkpoints and outcomes
//	trainer.state  the trainer's private state, where it can save one
type dataDir struct {
	fs        disk.FS
	root      string
	temporary bool
	lock      io.Closer
}

// openDataDir makes the directory if needed and locks it: two processes under one identity would contradict each other. What
// is found in it is on the disk by its name, too, when openDataDir returns.
func openDataDir(fsys disk.FS, path string) (d dataDir, err error) {
	d.fs, d.root = fsys, path
	if path == "" {
		d.temporary = true
		d.root, err = os.MkdirTemp("", "p2pdiloco-")
	} else {
		err = disk.MakeDir(fsys, path)
	}
	if err != nil {
		return dataDir{}, fmt.Errorf("data directory: %w: choose another one", err)
	}
	if d.lock, err = fsys.Lock(d.path("lock")); err != nil {
		return d, fmt.Errorf("data directory %s: %w", d.root, err)
	}
	if err := fsys.SyncDir(d.root); err != nil {
		return d, fmt.Errorf("data directory %s: %w", d.root, err)
	}
	return d, nil
}

func (d dataDir) path(name string) string { return filepath.Join(d.root, name) }

func (d dataDir) has(name string) bool {
	f, err := d.fs.OpenFile(d.path(name), os.O_RDONLY)
	return err == nil && f.Close() == nil
}

const specFile = "run.spec"

// loadSpec reads the spec of the run that this directory belongs to, nil if it is new, and checks the fields given now against it.
func (d dataDir) loadSpec(given Spec) (*Spec, error) {
	b, err := disk.Read(d.fs, d.path(specFile), p2p.MaxSpec)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	known, err := ParseSpec(b)
	if err != nil {
		return nil, fmt.Errorf("%s is damaged: %w: move the directory away to join the run as a new peer", d.path(specFile), err)
	}
	if err := given.Adopt(known, ""); err != nil {
		return nil, fmt.Errorf("data directory %s: %w", d.root, err)
	}
	return &known, nil
}

// saveSpec writes the spec once; it never changes.
func (d dataDir) saveSpec(s Spec) error {
	if err := disk.Create(d.fs, d.path(specFile), s.Append(nil)); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("data directory: %w", err)
	}
	return nil
}

func (d dataDir) close() error {
	var errs []error
	if d.lock != nil {
		errs = append(errs, d.lock.Close())
	}
	if d.temporary {
		errs = append(errs, os.RemoveAll(d.root))
	}
	return errors.Join(errs...)
}
