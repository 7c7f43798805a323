package peer

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/internal/api"
	"github.com/p2pdiloco/p2pdiloco/internal/disk"
	"github.com/p2pdiloco/p2pdiloco/internal/node/datadir"
)

// services are what a program runs beside a node: its files, its API, its metrics.
type services struct {
	dir     datadir.Dir // locked from the start to the end
	events  *eventsFile // nil: there is none
	api     *api.Server
	apiText map[string]string // what the API's files in the data directory hold
	socket  string            // directory made for the API's socket; empty: none
	metrics *api.Server       // on an address of its own, or nil
	recent  recent            // the newest events
	// the event peer.started: the answer to status before there is a node
	self atomic.Pointer[p2pdiloco.Event]
}

// prepare opens everything that can fail before the network is used: the events file, the data
// directory, the API.
func (p *Peer) prepare(s *Settings) (err error) {
	if s.Events != "" {
		if p.events, err = openEvents(s, p.options.Notice, p.id); err != nil {
			return err
		}
	}
	if err := p.chooseDir(); err != nil {
		return err
	}
	return p.serve(s)
}

// chooseDir makes the data directory and locks it, so that nothing is written into one that another
// process uses, or that others can write. The lock stays until cleanUp: a trainer may take minutes
// to start, and a second process that got the directory meanwhile would take away this one's API.
func (p *Peer) chooseDir() (err error) {
	base, err := BaseDir()
	if p.cfg.DataDir != "" {
		p.dir, err = datadir.Open(disk.OS, p.cfg.DataDir)
		if path, unknown := filepath.Abs(p.cfg.DataDir); err == nil && unknown == nil && base != "" {
			_ = noteDir(base, path) // commands that are told which directory need no note
		}
		return err
	}
	if err != nil {
		return err
	}
	dir, first, err := takeDir(base, p.cfg.Spec.Name)
	if err != nil {
		return err
	}
	p.dir, p.cfg.DataDir = dir, dir.Root
	if !first {
		p.options.Notice("another peer of this run is on this machine: this one keeps its data in " + p.cfg.DataDir)
	}
	return nil
}

// mayFound refuses to found a second run of a name of which this host has a peer already: who
// starts one in the same way again means the first. A user who names a new directory and says that
// it is to found a run may do so.
func (p *Peer) mayFound(id p2pdiloco.Root) error {
	base, err := BaseDir()
	if err != nil {
		return nil //nolint:nilerr // then no directory was chosen here
	}
	own, err := filepath.Abs(p.cfg.DataDir)
	if err != nil || p.cfg.Found && !isChosen(base, own) {
		return err
	}
	dirs, err := Dirs(base)
	if err != nil {
		return err
	}
	for _, dir := range dirs {
		known, err := datadir.At(disk.OS, dir).LoadSpec(p2pdiloco.Spec{})
		if err != nil || known == nil || known.Name != p.cfg.Spec.Name || known.RunID() == id || dir == own {
			continue
		}
		return fmt.Errorf("%w: this machine has a peer of run %s, with the ID %.16s (%s), in %s, and none of that run "+
			"answers here. Founding a second run of the name would divide you from the others. To join that run as "+
			"another peer, take a ticket: p2pdiloco invite --data-dir %s (it must be running). To go on as that peer: "+
			"p2pdiloco join --data-dir %s. To found a second run all the same: p2pdiloco start %s --data-dir NEW",
			p2pdiloco.ErrOtherRun, known.Name, known.RunID(), known.Access, dir, dir, dir, known.Name)
	}
	return nil
}

// id is this peer's ID; empty before it is known.
func (p *Peer) id() p2pdiloco.PeerID {
	if started := p.self.Load(); started != nil {
		return started.Peer
	}
	return ""
}

// onEvent is called by the node, one event at a time.
func (p *Peer) onEvent(e p2pdiloco.Event) {
	if e.Name == "peer.started" {
		e.Fields["pid"], e.Fields["data_dir"] = os.Getpid(), p.cfg.DataDir
		if p.api != nil {
			e.Fields["api"] = p.api.Addr().String()
		}
		if p.metrics != nil {
			e.Fields["metrics"] = p.metrics.Addr().String()
		}
		p.self.Store(&e)
	}
	p.recent.add(e)
	if p.events != nil {
		p.events.add(e)
	}
	if p.options.OnEvent != nil {
		p.options.OnEvent(e)
	}
}

// cleanUp closes what prepare opened, in the opposite order.
func (p *Peer) cleanUp() error {
	var errs []error
	errs = append(errs, p.endAPI(), p.dir.Close())
	if p.events != nil {
		errs = append(errs, p.events.close())
	}
	return errors.Join(errs...)
}
