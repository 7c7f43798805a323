package checkpoint

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"github.com/p2pdiloco/p2pdiloco/internal/disk"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// tempPrefix begins the names of files that are not finished.
const tempPrefix = "tmp-"

// folder is the directory on disk. Files appear in it whole and durable, or not at all.
type folder struct {
	dir      string
	fs       disk.FS
	log      *slog.Logger
	readOnly bool   // nothing in it is changed
	anew     func() // forgets all files: somebody has removed the folder
	mu       struct {
		sync.Mutex
		spare    []string // temporary names of files that are not needed any more
		recycled uint64   // files so far, which makes these names unique
	}
}

// maxSpare is how many files are kept to be written again: those of some slots, and a state.
const maxSpare = 5

func (d *folder) path(name string) string { return filepath.Join(d.dir, name) }

// open opens a file for reading.
func (d *folder) open(name string) (disk.File, error) {
	return d.fs.OpenFile(d.path(name), os.O_RDONLY)
}

// names lists the files.
func (d *folder) names() (names []string, err error) {
	entries, err := d.fs.ReadDir(d.dir)
	if err != nil {
		return nil, fmt.Errorf("checkpoint: %w", err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names, nil
}

// temp makes a temporary file for one of a name. If the folder was removed, temp makes it again,
// but not the data directory around it: what this peer has promised went with that.
func (d *folder) temp(name string) (disk.File, error) {
	f, err := d.fs.CreateTemp(d.dir, tempPrefix+"*")
	if errors.Is(err, fs.ErrNotExist) {
		if err = d.fs.Mkdir(d.dir); err == nil {
			d.log.Warn("the folder of checkpoints was removed: it is made again, and the next checkpoint comes into it",
				"folder", d.dir)
			d.anew()
			err = d.fs.SyncDir(filepath.Dir(d.dir))
		}
		if err == nil || errors.Is(err, fs.ErrExist) {
			f, err = d.fs.CreateTemp(d.dir, tempPrefix+"*")
		}
	}
	if err != nil {
		return nil, d.explain(name, err)
	}
	return f, nil
}

// begin opens a file to be written under a temporary name, in the place of a spare one if there is
// one: memory that the system has not had for a file before costs it four times as long as writing
// to it. fill follows, or drop.
func (d *folder) begin(name string) (disk.File, error) {
	f, err := d.reuse(name)
	if err != nil {
		f, err = d.temp(name)
	}
	return f, err
}

// fill writes a file of a size that was begun. publish follows, or drop. After an error it is gone.
func (d *folder) fill(f disk.File, name string, size int64, write func() error) error {
	err := write()
	if err == nil {
		err = f.Truncate(size)
	}
	if err != nil {
		err = d.failed(f, name, err)
	}
	return err
}

// failed drops a file that could not be written.
func (d *folder) failed(f disk.File, name string, err error) error {
	d.drop(f)
	if errors.Is(err, syscall.ENOSPC) { // the next try has their room
		err = errors.Join(err, d.removeSpare())
	}
	return d.explain(name, err)
}

// reuse opens a spare file of the same kind.
func (d *folder) reuse(name string) (disk.File, error) {
	kind, _, _ := strings.Cut(name, "-")
	d.mu.Lock()
	defer d.mu.Unlock()
	i := slices.IndexFunc(d.mu.spare, func(temp string) bool { return strings.HasPrefix(temp, tempPrefix+kind) })
	if i < 0 {
		return nil, fs.ErrNotExist
	}
	temp := d.mu.spare[i]
	d.mu.spare = slices.Delete(d.mu.spare, i, i+1)
	return d.fs.OpenFile(d.path(temp), os.O_RDWR)
}

// recycle makes spare files of some that are not needed any more, and removes the others. A spare
// file is written to only once its old name is gone for good: what has a name is whole.
func (d *folder) recycle(names []string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	var errs []error
	var spare []string
	for _, name := range names {
		d.mu.recycled++
		temp := fmt.Sprintf("%s%s-%d", tempPrefix, name, d.mu.recycled)
		if len(d.mu.spare)+len(spare) >= maxSpare {
			errs = append(errs, d.remove(name))
		} else if err := d.fs.Rename(d.path(name), d.path(temp)); err == nil {
			spare = append(spare, temp)
		} else if !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, fmt.Errorf("checkpoint: cannot rename %s: %w", name, err))
		}
	}
	if len(spare) == 0 {
		return errors.Join(errs...)
	}
	err := d.fs.SyncDir(d.dir)
	if err == nil {
		d.mu.spare = append(d.mu.spare, spare...)
	}
	return errors.Join(append(errs, err)...)
}

// reused says whether another process has taken a file, which it has pruned, for another one while
// this one, which changes nothing, read it.
func (d *folder) reused(name string) bool {
	if !d.readOnly {
		return false
	}
	f, err := d.open(name)
	if err == nil {
		_ = f.Close()
	}
	return errors.Is(err, fs.ErrNotExist)
}

// removeSpare removes the spare files.
func (d *folder) removeSpare() (err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, temp := range d.mu.spare {
		err = errors.Join(err, d.remove(temp))
	}
	d.mu.spare = nil
	return err
}

func (d *folder) drop(f disk.File) {
	_ = f.Close()
	_ = d.fs.Remove(f.Name())
}

// publish syncs a temporary file and gives it its name. On an error the file is gone.
func (d *folder) publish(f disk.File, name string) error {
	if err := disk.Publish(d.fs, f, d.path(name)); err != nil {
		return d.explain(name, err)
	}
	return nil
}

// remove removes a file, if it is there.
func (d *folder) remove(name string) error {
	err := d.fs.Remove(d.path(name))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("checkpoint: cannot remove %s: %w", name, err)
	}
	return nil
}

// setAside renames a corrupt file. It stays on disk, for a person to look at, until the next Prune.
func (d *folder) setAside(name string, why *CorruptError) {
	d.log.Error("a file is torn or corrupt and is not used", "file", why.Path, "why", why.Why)
	if d.readOnly {
		return
	}
	path := d.path(name)
	if err := d.fs.Rename(path, path+corruptSuffix); err != nil {
		d.log.Error("cannot set a corrupt file aside: remove it by hand", "file", path, "error", err)
		return
	}
	why.aside = true
}

// explain says what to do about a failed write. The files that were there are as they were.
func (d *folder) explain(name string, err error) error {
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return fmt.Errorf("checkpoint: cannot write %s: %w: free space in %s; older files there are intact", name, err,
			d.dir)
	case errors.Is(err, os.ErrPermission), errors.Is(err, syscall.EROFS):
		return fmt.Errorf("checkpoint: cannot write %s: %w: make %s writable for this user", name, err, d.dir)
	}
	return fmt.Errorf("checkpoint: cannot write %s in %s: %w", name, d.dir, err)
}

// Kinds of files: the first part of their names.
const (
	statePrefix   = "state"
	outcomePrefix = "outcome"
)

func fileName(kind string, height uint64, root slot.Root) string {
	return fmt.Sprintf("%s-%020d-%s", kind, height, root)
}

// parseFileName parses the names that fileName makes, and no others.
func parseFileName(name string) (kind string, height uint64, root slot.Root, ok bool) {
	part := strings.Split(name, "-")
	if len(part) != 3 {
		return "", 0, slot.Root{}, false
	}
	height, err := strconv.ParseUint(part[1], 10, 64)
	if err != nil {
		return "", 0, slot.Root{}, false
	}
	if b, err := hex.DecodeString(part[2]); err == nil && len(b) == len(root) {
		root = slot.Root(b)
	}
	return part[0], height, root, fileName(part[0], height, root) == name
}

// ErrNotHeld is wrapped when a state, outcome or segment is not in the store.
var ErrNotHeld = errors.New("not held on disk")

func notHeld(root slot.Root) error {
	return fmt.Errorf("checkpoint: state %s: %w", root.Short(), ErrNotHeld)
}

// CorruptError means that the bytes of a file are not what its name promises. The file has been set
// aside, unless it is only read here.
type CorruptError struct {
	Path string // as it was when it was read
	Why  string

	aside bool
}

func (e *CorruptError) Error() string {
	text := fmt.Sprintf("%s is torn or corrupt: %s", e.Path, e.Why)
	if e.aside {
		text += fmt.Sprintf(" (set aside as %s%s)", filepath.Base(e.Path), corruptSuffix)
	}
	return text
}

const corruptSuffix = ".corrupt"

func corrupt(f disk.File, why string, args ...any) *CorruptError {
	return &CorruptError{Path: f.Name(), Why: fmt.Sprintf(why, args...)}
}

// catalog is what is known of the files of one kind, by their names.
type catalog[T comparable] struct {
	folder *folder
	aside  sync.Mutex // held while a file is set aside
	mu     struct {
		sync.Mutex
		files map[string]T
	}
}

func (c *catalog[T]) add(name string, file T) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.files == nil {
		c.mu.files = map[string]T{}
	}
	c.mu.files[name] = file
}

func (c *catalog[T]) named(name string) (file T, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	file, ok = c.mu.files[name]
	return file, ok
}

func (c *catalog[T]) all() []T {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Collect(maps.Values(c.mu.files))
}

// setAside takes a corrupt file out of the catalog, and gives it another name, if the catalog still
// has the file that was read. Another reader may have set that aside before, and a good file have
// come in its place, while this one had it open.
func (c *catalog[T]) setAside(name string, read T, why *CorruptError) {
	c.aside.Lock()
	defer c.aside.Unlock()
	if file, ok := c.named(name); ok && file == read {
		c.folder.setAside(name, why)
		c.forget(name) // last: until then no other file gets the name
	}
}

func (c *catalog[T]) forget(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.mu.files, name)
}

func (c *catalog[T]) forgetAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.mu.files)
}

// Reached returns the height up to which the files in dir show that this peer has had records. A
// state is that after a record which the peer had on disk before. An outcome of the height above
// the newest record may lie there, because it is on disk before the peer says that it holds it. The
// files may be those of a chain that was given up.
func Reached(fsys disk.FS, dir string) (height uint64, err error) {
	names, err := (&folder{dir: dir, fs: fsys}).names()
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	for _, name := range names {
		switch kind, at, _, ok := parseFileName(name); {
		case !ok:
		case kind == statePrefix:
			height = max(height, at)
		case kind == outcomePrefix && at > 0:
			height = max(height, at-1)
		}
	}
	return height, err
}
