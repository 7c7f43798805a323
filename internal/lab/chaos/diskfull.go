package chaos

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/swarm"
)

// smallDiskBytes is the size of the disk that gets full: a peer of the tiny model needs much less.
const smallDiskBytes = 32 << 20

const filler = "filler" // takes the room

// smallDisk moves a peer's data to a small disk: it is killed, and started again.
func (r *runner) smallDisk(f *fault) error {
	killAll(f.victims)
	p := f.victims[0]
	if err := os.Rename(p.Data, p.Data+".large"); err != nil {
		return err
	}
	if err := os.Mkdir(p.Data, 0o700); err != nil {
		return err
	}
	if err := mountSmall(p.Data, smallDiskBytes); err != nil {
		return fmt.Errorf("disk-full: %w", err)
	}
	f.mounted = true
	if err := copyDir(p.Data+".large", p.Data); err != nil {
		return err
	}
	return r.startNode(p)
}

// fillDisk fills the small disk once the peer takes part again.
func (r *runner) fillDisk(f *fault) error {
	p := f.victims[0]
	if !f.filled.IsZero() || !p.back(f.BegunSlot) || !r.takesPart(f, p) {
		return nil
	}
	f.filled = time.Now()
	file, err := os.Create(filepath.Join(p.Data, filler))
	if err != nil {
		return err
	}
	defer file.Close()
	for size := 1 << 20; size > 0; {
		switch _, err := file.Write(make([]byte, size)); {
		case errors.Is(err, syscall.ENOSPC):
			size /= 2
		case err != nil:
			return err
		}
	}
	return nil
}

// endWithin is how long a peer may take to end whose disk is full.
const endWithin = 45 * time.Second

// endedFull says whether the peer with the full disk has ended. If it has not in time, or did not
// say why, that is a fault.
func (r *runner) endedFull(f *fault) bool {
	p := f.victims[0]
	since := f.filled
	if since.IsZero() {
		since = f.began
	}
	if !p.gone && time.Since(since) < r.cfg.stretch(endWithin) {
		return false
	}
	if why := swarm.Tail(p.Log); !p.gone || !strings.Contains(why, "no space left") {
		r.odd = append(r.odd, fmt.Sprintf(
			"slot %d: the disk of peer %d is full: %v; it ended: %v; its log ends with:\n%s",
			f.BegunSlot, p.n, !f.filled.IsZero(), p.gone, why))
	}
	return true
}

// largeDisk gives the peer room again, and starts it with what the full disk holds.
func (r *runner) largeDisk(f *fault) error {
	p := f.victims[0]
	if !p.gone {
		killAll(f.victims)
	}
	if err := os.Remove(filepath.Join(p.Data, filler)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	large := p.Data + ".large"
	if err := errors.Join(os.RemoveAll(large), copyDir(p.Data, large), f.unmount(), os.Remove(p.Data)); err != nil {
		return err
	}
	if err := os.Rename(large, p.Data); err != nil {
		return err
	}
	return r.startNode(p)
}

// unmount takes the small disk away, with all that it holds.
func (f *fault) unmount() error {
	if !f.mounted {
		return nil
	}
	f.mounted = false
	return unmountSmall(f.victims[0].Data)
}

// copyDir copies a folder of a process that may change it meanwhile: files that vanish are left
// out.
func copyDir(from, to string) error {
	return filepath.WalkDir(from, func(path string, e fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		target := filepath.Join(to, rel)
		switch {
		case e.IsDir():
			return os.MkdirAll(target, 0o700)
		case !e.Type().IsRegular():
			return nil
		}
		b, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		return os.WriteFile(target, b, 0o600)
	})
}
