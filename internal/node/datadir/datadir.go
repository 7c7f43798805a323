// Package datadir is the directory in which a peer keeps what must outlive its process:
//
//	lock         held while a process uses the directory
//	identity     libp2p key
//	peers        addresses of peers met
//	ports        that were listened on, where none were given, or 0
//	run.spec     the settled run spec
//	preset       name of the run's timing
//	ledger.log   incarnation, promises, votes, and where each record is
//	ledger.records  all certified records
//	orders       motions of this peer's operator, about which peers may be in the run
//	ledger.lock  held while that log is open
//	metrics.jsonl  what this peer measured, a line a slot
//	run.given-up  the spec of a run that was given up: Open removes what is left of it
//	ledger.lost  the log was found missing; there until a chain is on disk again
//	state/       checkpoints and outcomes
//	trainer.state/  the trainer's private state, where it can save one
//
// A node Opens the directory before all else and Closes it last. A program that only reads the
// directory of a peer takes it At its path, without the lock.
//
// Export writes the model in a directory to a .safetensors file. FixInitial and ReadInitial read
// such a file as the initial parameters of a run.
package datadir

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/p2pdiloco/p2pdiloco/internal/disk"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/wire"
	"github.com/p2pdiloco/p2pdiloco/p2p"
	"github.com/p2pdiloco/p2pdiloco/spec"
)

// Files and folders of the directory.
const (
	IdentityFile  = "identity"
	PeersFile     = "peers"
	PortsFile     = "ports"
	LedgerFile    = "ledger.log"
	RecordsFile   = "ledger.records"
	StateFolder   = "state"
	TrainerFolder = "trainer.state"
	OrdersFile    = "orders"
	LostFile      = "ledger.lost"
	MetricsFile   = "metrics.jsonl"

	lockFile   = "lock"
	specFile   = "run.spec"
	givenUp    = "run.given-up"
	presetFile = "preset"

	maxPreset = 32 // bytes of presetFile
)

// replaced lists the files that are written beside their place first. A process that is killed
// meanwhile leaves what it wrote.
var replaced = []string{
	IdentityFile, PeersFile, PortsFile, OrdersFile, LostFile, MetricsFile, specFile,
	presetFile,
	"admission.secret", "admission.next", "admission.used", "api", "api.token", "metrics.token", "attach",
}

// Dir is one data directory.
type Dir struct {
	FS        disk.FS
	Root      string
	Temporary bool // removed by Close
	lock      io.Closer
}

// At is the directory at a path, which is not locked: for reading it.
func At(fsys disk.FS, path string) Dir { return Dir{FS: fsys, Root: path} }

// Open makes the directory if needed, a temporary one without a path, and locks it: two processes
// under one identity would contradict each other. What is found in it is on the disk by its name,
// too, when Open returns, and what killed processes were writing is gone. The caller closes what is
// returned, even with an error.
func Open(fsys disk.FS, path string) (d Dir, err error) {
	d.FS, d.Root = fsys, path
	if path == "" {
		d.Temporary = true
		d.Root, err = os.MkdirTemp("", "p2pdiloco-")
	} else {
		err = disk.MakeDir(fsys, path)
	}
	if err != nil {
		return Dir{}, fmt.Errorf("data directory: %w: choose another one", err)
	}
	if err = disk.CheckDir(fsys, d.Root); err != nil {
		return Dir{}, err
	}
	if d.lock, err = fsys.Lock(d.Path(lockFile)); err != nil {
		return d, fmt.Errorf("data directory %s: %w", d.Root, err)
	}
	if err := fsys.SyncDir(d.Root); err != nil {
		return d, fmt.Errorf("data directory %s: %w", d.Root, err)
	}
	disk.Sweep(fsys, d.Root, replaced...)
	return d, d.forget()
}

// Path is where a file of the directory lies.
func (d Dir) Path(name string) string { return filepath.Join(d.Root, name) }

// Has says whether the directory has a file.
func (d Dir) Has(name string) bool {
	has, err := d.holds(name)
	return has && err == nil
}

// NoteLostLedger says whether a directory has lost its vote log, in this start or an earlier one.
// It comes before the log is opened, which makes a missing one: from then on nothing but the note
// that is left here tells that the peer may have forgotten what it agreed to. A directory that
// belongs to no run has no log yet.
func (d Dir) NoteLostLedger() (lost bool, err error) {
	if has, err := d.holds(LedgerFile); has || err != nil {
		return d.Has(LostFile), err
	}
	if has, err := d.holds(specFile); !has || err != nil {
		return false, err
	}
	note := "ledger.log was missing when this peer was started: it founds no run until it has a chain again\n"
	if err := disk.Create(d.FS, d.Path(LostFile), []byte(note)); err != nil && !errors.Is(err, fs.ErrExist) {
		return true, fmt.Errorf("data directory: %w", err)
	}
	return true, nil
}

// holds is Has, with the error of a file that is there and cannot be opened.
func (d Dir) holds(name string) (bool, error) {
	f, err := d.FS.OpenFile(d.Path(name), os.O_RDONLY)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("data directory: %w", err)
	}
	return true, f.Close()
}

// Kept is an error where the vote log of a peer that runs is gone. The file stays open, and takes
// writes that nobody finds again.
func (d Dir) Kept() error {
	has, err := d.holds(LedgerFile)
	if has || err != nil {
		return err
	}
	return &fs.PathError{Op: "data directory", Path: d.Root, Err: errGone}
}

var errGone = errors.New("its ledger.log is gone, and with it what this peer has promised to the others: put the " +
	"directory back before the next start, or the peer joins as a new one")

// CheckIdentity refuses a directory that has lost its identity.
func (d Dir) CheckIdentity() error {
	if d.Has(LedgerFile) && !d.Has(IdentityFile) {
		return fmt.Errorf("data directory %s has a ledger.log but no identity: put the identity back, or move the "+
			"directory away to join as a new peer", d.Root)
	}
	return nil
}

// Identity is the peer ID of the directory at a path, where a peer may be running. If there is no
// identity, Identity makes one, and says so.
func Identity(fsys disk.FS, path string) (id slot.PeerID, made bool, err error) {
	d := At(fsys, path)
	if !d.Has(IdentityFile) {
		if d, err = Open(fsys, path); err != nil {
			return "", false, errors.Join(err, d.Close())
		}
		made = true
	}
	if err = d.CheckIdentity(); err == nil {
		id, err = p2p.IdentityIn(d.Path(IdentityFile))
	}
	return id, made && err == nil, errors.Join(err, d.Close())
}

// LoadSpec reads the spec of the run that this directory belongs to, nil if it is new, and checks
// the fields given now against it.
func (d Dir) LoadSpec(given spec.Spec) (*spec.Spec, error) {
	b, err := disk.Read(d.FS, d.Path(specFile), p2p.MaxSpec)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	known, err := spec.Parse(b)
	var other *wire.VersionError
	if errors.As(err, &other) {
		return nil, fmt.Errorf("data directory %s: %w", d.Root, err)
	}
	if err != nil {
		return nil, fmt.Errorf("%s is damaged: %w: move the directory away to join the run as a new peer",
			d.Path(specFile), err)
	}
	if err := given.Adopt(known, ""); err != nil {
		return nil, fmt.Errorf("data directory %s: %w", d.Root, err)
	}
	return &known, nil
}

// SaveSpec writes the spec once; it never changes.
func (d Dir) SaveSpec(s spec.Spec) error {
	if err := disk.Create(d.FS, d.Path(specFile), s.Append(nil)); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("data directory: %w", err)
	}
	return nil
}

// GiveUp has the next Open forget the run of this directory.
func (d Dir) GiveUp() error {
	return errors.Join(d.FS.Rename(d.Path(specFile), d.Path(givenUp)), d.FS.SyncDir(d.Root))
}

// forget removes what belongs to a run that was given up, if one was: nobody else was ever in it.
// What is known of this peer and others stays.
func (d Dir) forget() (err error) {
	if !d.Has(givenUp) {
		return nil
	}
	for _, name := range []string{
		LedgerFile, RecordsFile, LostFile, StateFolder, TrainerFolder, OrdersFile, MetricsFile, presetFile,
	} {
		err = errors.Join(err, os.RemoveAll(d.Path(name)))
	}
	if err == nil {
		err = errors.Join(d.FS.SyncDir(d.Root), os.Remove(d.Path(givenUp)))
	}
	return err
}

// LoadPreset is the name of the run's preset that the directory remembers, one of those given;
// empty if it remembers none.
func (d Dir) LoadPreset(names ...string) (string, error) {
	b, err := disk.Read(d.FS, d.Path(presetFile), maxPreset)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("data directory: %w", err)
	}
	name := strings.TrimSpace(string(b))
	if !slices.Contains(names, name) {
		return "", fmt.Errorf("%s is damaged: it names no preset: remove it, or give the run's preset (%s)",
			d.Path(presetFile), strings.Join(names, " or "))
	}
	return name, nil
}

// SavePreset remembers the name of the run's preset. Only a member does so: before that the name
// may be a stranger's word, and one that is wrong must be gone with the next start.
func (d Dir) SavePreset(name string) error {
	old, err := disk.Read(d.FS, d.Path(presetFile), maxPreset)
	if err == nil && strings.TrimSpace(string(old)) == name {
		return nil
	}
	return disk.Replace(d.FS, d.Path(presetFile), []byte(name+"\n"))
}

// Close unlocks the directory, and removes a temporary one.
func (d Dir) Close() error {
	var errs []error
	if d.lock != nil {
		errs = append(errs, d.lock.Close())
	}
	if d.Temporary {
		errs = append(errs, os.RemoveAll(d.Root))
	}
	return errors.Join(errs...)
}
