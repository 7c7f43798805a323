package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/cmd/p2pdiloco/internal/api"
	"github.com/p2pdiloco/p2pdiloco/cmd/p2pdiloco/internal/eventlog"
	"github.com/p2pdiloco/p2pdiloco/cmd/p2pdiloco/internal/report"
	"github.com/p2pdiloco/p2pdiloco/cmd/p2pdiloco/internal/statedir"
	"github.com/p2pdiloco/p2pdiloco/internal/disk"
)

// leaveTimeout bounds a graceful leave: a round that others still reduce with this peer's contribution should end in it.
const leaveTimeout = 2 * time.Minute

// peer is one running join: a node, and what the program puts around it.
type peer struct {
	flags          *joinFlags
	spec           p2pdiloco.Spec
	stdout, stderr io.Writer
	began          time.Time

	dir      string
	claim    *statedir.Claim // nil where --data-dir was given
	events   *eventlog.Writer
	api      *api.Server
	collect  report.Collector
	node     atomic.Pointer[p2pdiloco.Node]
	self     atomic.Pointer[p2pdiloco.Event] // peer.started: who answers before the node stands
	complain sync.Once
}

// say prints a line for people: on stdout, or on stderr if stdout is for JSON.
func (p *peer) say(format string, args ...any) {
	w := p.stdout
	if p.flags.json {
		w = p.stderr
	}
	fmt.Fprintf(w, format+"\n", args...)
}

func (p *peer) run(ctx context.Context) error {
	ctx, stop := untilSignal(ctx,
		func() { p.say("leaving (once more to stop at once)") },
		func() { os.Exit(exitInterrupted) })
	defer stop()
	err := p.prepare()
	if err == nil {
		err = p.takePart(ctx)
	}
	return errors.Join(err, p.cleanUp())
}

// prepare opens what can fail before the network is touched: the events file, the data directory, the API.
func (p *peer) prepare() (err error) {
	if p.flags.events != "" {
		if p.events, err = eventlog.Create(p.flags.events); err != nil {
			return err
		}
	}
	if err = p.chooseDir(); err != nil {
		return err
	}
	if p.flags.api == noAPI {
		return nil
	}
	addr, err := api.ParseAddress(p.flags.api)
	if err != nil {
		return err
	}
	orders := api.Orders{Token: api.NewToken(), Recover: p.recover}
	if p.api, err = api.Serve(addr, p.status, orders); err != nil {
		return err
	}
	if err := disk.Replace(disk.OS, filepath.Join(p.dir, statedir.TokenFile), []byte(orders.Token+"\n")); err != nil { // for this user's eyes
		return err
	}
	return writeFile(filepath.Join(p.dir, statedir.APIFile), p.api.Addr().String()+"\n")
}

func (p *peer) chooseDir() error {
	if p.dir = p.flags.dataDir; p.dir != "" {
		return os.MkdirAll(p.dir, 0o700)
	}
	base, err := statedir.Base()
	if err != nil {
		return err
	}
	if p.claim, err = statedir.Take(base, p.spec.Name); err != nil {
		return err
	}
	p.dir = p.claim.Dir
	if !p.claim.First {
		p.say("another peer of this run is on this machine: this one keeps its data in %s", p.dir)
	}
	return nil
}

// takePart joins, trains to the end or to the first signal, and sums up.
func (p *peer) takePart(ctx context.Context) error {
	cfg, err := p.config(ctx)
	if err != nil {
		return unlessAsked(ctx, err)
	}
	node, err := p2pdiloco.Join(ctx, cfg)
	if err != nil {
		return unlessAsked(ctx, err) // nobody has to know of who leaves before the run was found
	}
	p.node.Store(node)
	err = node.Run(ctx)
	return errors.Join(unlessAsked(ctx, err), p.finish(node, err == nil))
}

// unlessAsked is err, or nil if it comes of the user having asked to leave.
func unlessAsked(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

func (p *peer) config(ctx context.Context) (cfg p2pdiloco.Config, err error) {
	f := p.flags
	cfg = p2pdiloco.Config{
		Spec: p.spec, DataDir: p.dir, Listen: f.listen, Bootstrap: f.bootstrap, Found: f.found, Preset: f.preset.value,
		OnQuorumLoss: f.onLoss.value, Pin: f.pin.Root,
		InitFile: f.init, CheckpointEvery: f.every, KeepCheckpoints: f.keep, StateBytesPerSecond: 1_000_000 * f.stateRate,
		OnEvent: p.onEvent, Logger: f.logLevel.logger(p.stderr),
	}
	if f.trainer.value == trainerGPT {
		cfg.Trainer, err = f.newGPT(ctx, p.spec.Settled().Seed)
	}
	return cfg, err
}

// finish leaves the run, or closes the node where it has ended, and prints the report.
func (p *peer) finish(node *p2pdiloco.Node, ended bool) error {
	last := node.Status()
	ctx, cancel := context.WithTimeout(context.Background(), leaveTimeout)
	defer cancel()
	leave, failed := node.Leave, last.Phase == p2pdiloco.PhaseClosed // by itself: the error that Run gave says why
	if ended || failed {
		leave = func(context.Context) error { return node.Close() }
	}
	err := leave(ctx)
	if now := node.Status(); now.Slot > last.Slot {
		last = now // a contribution that was offered still counted
	}
	r := p.collect.Report(last, ended, time.Since(p.began))
	if p.flags.json {
		return errors.Join(err, json.NewEncoder(p.stdout).Encode(r))
	}
	if !failed {
		p.say("%s", closing(r))
	}
	return err
}

// onEvent is called by the node, one event at a time.
func (p *peer) onEvent(e p2pdiloco.Event) {
	if e.Name == "peer.started" {
		e.Fields["pid"] = os.Getpid()
		if p.api != nil {
			e.Fields["api"] = p.api.Addr().String()
		}
		p.self.Store(&e)
	}
	p.collect.Observe(e)
	if line := describe(e); line != "" {
		p.say("%s", line)
	}
	if p.events == nil {
		return
	}
	if err := p.events.Event(e); err != nil {
		p.complain.Do(func() { fmt.Fprintf(p.stderr, "p2pdiloco: %v; events are missing from now on\n", err) })
	}
}

// status answers the API: the node's, or before there is one that it searches.
func (p *peer) status() (p2pdiloco.Status, bool) {
	if node := p.node.Load(); node != nil {
		return node.Status(), true
	}
	started := p.self.Load()
	if started == nil {
		return p2pdiloco.Status{}, false
	}
	addrs, _ := started.Fields["addrs"].([]string)
	return p2pdiloco.Status{
		Peer: started.Peer, Addrs: addrs, Run: p.spec.Name, Phase: p2pdiloco.PhaseSearching,
		Members: []p2pdiloco.MemberStatus{}, Uptime: time.Since(p.began),
	}, true
}

// recover is the order that the API takes.
func (p *peer) recover() error {
	node := p.node.Load()
	if node == nil {
		return errors.New("the peer is still looking for the run")
	}
	return node.Recover()
}

// cleanUp closes what prepare opened, in the opposite order.
func (p *peer) cleanUp() error {
	var errs []error
	if p.api != nil {
		for _, name := range []string{statedir.APIFile, statedir.TokenFile} {
			errs = append(errs, os.Remove(filepath.Join(p.dir, name)))
		}
		errs = append(errs, p.api.Close())
	}
	if p.claim != nil {
		errs = append(errs, p.claim.Release())
	}
	if p.events != nil {
		errs = append(errs, p.events.Close())
	}
	return errors.Join(errs...)
}
