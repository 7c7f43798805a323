package p2pdiloco

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// dataDir is where a peer keeps what must outlive its process:
//
//	identity     libp2p key
//	peers        addresses of peers met
//	run.spec     the settled run spec
//	ledger.log   incarnation, promises, votes, certified records
//	state/       checkpoints and outcomes
type dataDir struct {
	root      string
	temporary bool
}

func openDataDir(path string) (dataDir, error) {
	if path == "" {
		path, err := os.MkdirTemp("", "p2pdiloco-")
		return dataDir{path, true}, err
	}
	if err := os.MkdirAll(path, 0o700); err != nil {
		return dataDir{}, fmt.Errorf("data directory: %w: choose another one", err)
	}
	return dataDir{path, false}, nil
}

func (d dataDir) path(name string) string { return filepath.Join(d.root, name) }

const specFile = "run.spec"

// loadSpec reads the spec of the run that this directory belongs to, nil if it is new, and checks the fields given now against it.
func (d dataDir) loadSpec(given Spec) (*Spec, error) {
	b, err := os.ReadFile(d.path(specFile))
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
	if _, err := os.Stat(d.path(specFile)); err == nil {
		return nil
	}
	tmp := d.path(specFile + ".tmp")
	err := writeSynced(tmp, s.Append(nil))
	if err == nil {
		err = os.Rename(tmp, d.path(specFile))
	}
	if err != nil {
		return fmt.Errorf("data directory: %w", err)
	}
	return nil
}

func writeSynced(path string, b []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	return errors.Join(err, f.Sync(), f.Close())
}

func (d dataDir) close() error {
	if d.temporary {
		return os.RemoveAll(d.root)
	}
	return nil
}
