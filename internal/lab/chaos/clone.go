package chaos

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/eventlog"
	"github.com/p2pdiloco/p2pdiloco/internal/swarm"
)

// endWithin is how long a peer may take to end that must: one of two with the same identity, or one
// whose disk is full.
const endWithin = 45 * time.Second

// ends says whether a fault's victim must end by itself, with an error that says why.
func (k Kind) ends() bool { return k == Clone || k == DiskFull }

// clone starts a second process with a copy of the victim's data directory, as it is now.
func (r *runner) clone(f *fault) error {
	p := f.victims[0]
	name := fmt.Sprintf("%s-clone-%d", filepath.Base(p.Data), f.BegunSlot)
	f.copied = r.crew.NewPeer(p.n, r.dir, name)
	if err := copyDir(p.Data, f.copied.Data); err != nil {
		return err
	}
	return r.crew.Join(f.copied, r.name, r.boot.Addrs,
		slices.Concat(r.settings(), r.training(), r.crew.Listen(p.n))...)
}

// bothEnded says whether both processes with one identity have ended. If they have not in time, or
// if neither said why, that is a fault.
func (r *runner) bothEnded(f *fault) bool {
	p := f.victims[0]
	_, gone := f.copied.Exit()
	if late := time.Since(f.began) > r.cfg.stretch(endWithin); !late && (!gone || !p.gone) {
		return false
	}
	said := slices.ContainsFunc(p.heard, func(l eventlog.Line) bool { return l.Event == "peer.cloned" })
	// an unreadable file says nothing
	_ = f.copied.Read(func(l eventlog.Line) { said = said || l.Event == "peer.cloned" })
	if !p.gone || !gone || !said {
		r.odd = append(r.odd, fmt.Sprintf("slot %d: peer %d and a process with a copy of its data: peer ended: %v, "+
			"copy ended: %v, one said peer.cloned: %v", f.BegunSlot, p.n, p.gone, gone, said))
	}
	return true
}

// endClone ends what has not ended by itself.
func (r *runner) endClone(f *fault) {
	if _, gone := f.copied.Exit(); !gone {
		swarm.StopAll([]*swarm.Process{f.copied.Process}, r.cfg.Hurry)
	}
	if !f.victims[0].gone {
		killAll(f.victims)
	}
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
