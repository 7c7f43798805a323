package peer

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/bridge/internal/metrics"
	"github.com/p2pdiloco/p2pdiloco/bridge/settings"
	"github.com/p2pdiloco/p2pdiloco/internal/api"
	"github.com/p2pdiloco/p2pdiloco/internal/disk"
	"github.com/p2pdiloco/p2pdiloco/internal/eventlog"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/statedir"
)

// around is what stands around a node.
type around struct {
	claim   *statedir.Claim // nil where the directory was given
	events  *eventlog.Writer
	api     *api.Server
	metrics *api.Server // on an address of its own, or nil
	// the event peer.started: the answer to status before there is a node
	self     atomic.Pointer[p2pdiloco.Event]
	complain sync.Once
}

// prepare opens everything that can fail before the network is used: the events file, the data
// directory, the API.
func (p *Peer) prepare(s *settings.Settings) (err error) {
	if s.Events != "" {
		if p.events, err = eventlog.Create(s.Events); err != nil {
			return err
		}
	}
	if err = p.chooseDir(); err != nil {
		return err
	}
	scrapes := metrics.Handler(p.Status)
	if s.Metrics != "" {
		addr, err := api.ParseMetricsAddress(s.Metrics)
		if err != nil {
			return err
		}
		if p.metrics, err = api.ServeMetrics(addr, scrapes); err != nil {
			return err
		}
	}
	if s.API == settings.NoAPI {
		return nil
	}
	return p.serveAPI(s.API, scrapes)
}

// serveAPI serves the status API, and writes its address into the data directory.
func (p *Peer) serveAPI(at string, scrapes http.Handler) error {
	addr, err := api.ParseAddress(at)
	if err != nil {
		return err
	}
	commands := api.Commands{
		Token: api.NewToken(), Recover: p.recover, Change: p.change, Invite: p.invite,
		Probe: p.probe,
	}
	if p.api, err = api.Serve(addr, func() (any, bool) { return p.Status() }, commands, scrapes); err != nil {
		return err
	}
	// only this user may read it
	if err := disk.Replace(disk.OS, filepath.Join(p.cfg.DataDir, statedir.TokenFile),
		[]byte(commands.Token+"\n")); err != nil {
		return err
	}
	file := filepath.Join(p.cfg.DataDir, statedir.APIFile)
	if err := disk.Replace(disk.OS, file, []byte(p.api.Addr().String()+"\n")); err != nil {
		return err
	}
	return os.Chmod(file, 0o644) // it is there to be read
}

func (p *Peer) chooseDir() error {
	if p.cfg.DataDir != "" {
		if err := os.MkdirAll(p.cfg.DataDir, 0o700); err != nil {
			return err
		}
		return disk.CheckDir(disk.OS, p.cfg.DataDir) // before a secret is written there
	}
	base, err := statedir.Base()
	if err != nil {
		return err
	}
	if p.claim, err = statedir.Take(base, p.cfg.Spec.Name); err != nil {
		return err
	}
	p.cfg.DataDir = p.claim.Dir
	if !p.claim.First {
		p.options.Notice("another peer of this run is on this machine: this one keeps its data in " + p.cfg.DataDir)
	}
	return nil
}

// onEvent is called by the node, one event at a time.
func (p *Peer) onEvent(e p2pdiloco.Event) {
	if e.Name == "peer.started" {
		e.Fields["pid"] = os.Getpid()
		if p.api != nil {
			e.Fields["api"] = p.api.Addr().String()
		}
		if p.metrics != nil {
			e.Fields["metrics"] = p.metrics.Addr().String()
		}
		p.self.Store(&e)
	}
	if p.events != nil {
		if err := p.events.Event(e); err != nil {
			p.complain.Do(func() { p.options.Notice(err.Error() + "; events are missing from now on") })
		}
	}
	if p.options.OnEvent != nil {
		p.options.OnEvent(e)
	}
}

// recover carries out the API command of that name.
func (p *Peer) recover() error {
	node, err := p.found()
	if err != nil {
		return err
	}
	return node.Recover()
}

// change carries out the motions remove, readmit and rotate.
func (p *Peer) change(c api.Motion) error {
	node, err := p.found()
	if err != nil {
		return err
	}
	if c.Action == "rotate" {
		return node.RotateSecret()
	}
	about, err := slot.ParsePeerID(c.Peer)
	switch {
	case err != nil:
		return err
	case c.Action == "remove":
		return node.Remove(about)
	case c.Action == "readmit":
		return node.Readmit(about)
	}
	return fmt.Errorf("there is no command %q", c.Action)
}

// invite makes a ticket for the API.
func (p *Peer) invite(i api.Invitation) (string, error) {
	node, err := p.found()
	if err != nil {
		return "", err
	}
	return node.Invite(p.ctx, p2pdiloco.InviteOptions{TTL: i.TTL, Uses: i.Uses})
}

// found is the node, or the reason why there is none.
func (p *Peer) found() (*p2pdiloco.Node, error) {
	select {
	case <-p.joined:
		return p.node, p.err
	default:
		return nil, errors.New("the peer is still looking for the run")
	}
}

// probeSize is how many bytes a probe sends to each member and receives from it: enough for a
// connection to reach its rate.
const probeSize = 4 << 20

// probe measures the ways to all members for the API.
func (p *Peer) probe(ctx context.Context) (any, error) {
	node, err := p.found()
	if err != nil {
		return nil, err
	}
	return node.Probe(ctx, probeSize), nil
}

// cleanUp closes what prepare opened, in the opposite order.
func (p *Peer) cleanUp() error {
	var errs []error
	if p.api != nil {
		for _, name := range []string{statedir.APIFile, statedir.TokenFile} {
			// prepare may have failed before it
			if err := os.Remove(filepath.Join(p.cfg.DataDir, name)); !errors.Is(err, os.ErrNotExist) {
				errs = append(errs, err)
			}
		}
		errs = append(errs, p.api.Close())
	}
	if p.metrics != nil {
		errs = append(errs, p.metrics.Close())
	}
	if p.claim != nil {
		errs = append(errs, p.claim.Release())
	}
	if p.events != nil {
		errs = append(errs, p.events.Close())
	}
	return errors.Join(errs...)
}
