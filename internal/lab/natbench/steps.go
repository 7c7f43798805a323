package natbench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/p2pdiloco/p2pdiloco"
)

// step is one slot, and its disturbance. What is nil does nothing.
type step struct {
	what   string
	before func(ctx context.Context) error                    // the slot begins
	during func(ctx context.Context) (note string, err error) // while its bytes are on their way
	after  func(ctx context.Context) error                    // it is over
}

func (f *four) steps() []step {
	return []step{
		{what: "nothing", before: f.meet},
		{what: "the bootstrap node is killed", before: f.killBootstrap, after: f.restartBootstrap},
		{what: "a relay is killed while it carries the slot", during: f.killRelay},
		{what: "a peer's addresses change in mid-slot", during: f.move},
		{what: "nothing more"},
	}
}

// meet waits until all four are members and as well connected as they will be.
func (f *four) meet(ctx context.Context) error {
	err := f.await(ctx, patience*f.cfg.Limit, "four members", func() bool {
		return !slices.ContainsFunc(f.peers, func(p *peer) bool { return p.status.Phase != p2pdiloco.PhaseRunning })
	})
	if err != nil {
		return err
	}
	met := time.Now() // connections improve by themselves
	return f.await(ctx, settle+time.Minute, "ways", func() bool {
		f.result.Ways = f.ways()
		return time.Since(met) > settle || !slices.ContainsFunc(f.result.Ways,
			func(p Pair) bool { return !direct(p.Last.Name) })
	})
}

// ways are how the four reach each other now.
func (f *four) ways() (all []Pair) {
	for i, a := range f.peers {
		for _, b := range f.peers[i+1:] {
			w, ok := wayBetween(a, b)
			all = append(all, Pair{A: a.kind, B: b.kind, Connected: ok, Last: Way{Name: w.Way, Transport: w.Transport}})
		}
	}
	return all
}

func (f *four) killBootstrap(context.Context) error {
	f.boots[0].Signal(os.Kill)
	<-f.boots[0].Ended
	return nil
}

func (f *four) restartBootstrap(ctx context.Context) (err error) {
	f.boots[0], err = f.startRelay(ctx, f.boots[0].host, f.boots[0].dir, f.run)
	return err
}

var errOver = errors.New("the slot was over before: give more --size or less --rate")

// killRelay kills a relay that is not a peer and through which two peers reach each other; the
// second relay if there is none.
func (f *four) killRelay(context.Context) (string, error) {
	if f.holding(f.slot) > 0 {
		return "", errOver
	}
	victim, note := f.boots[1], "nobody was relayed through it"
	for i, p := range f.peers {
		for _, q := range f.peers[i+1:] {
			w, _ := wayBetween(p, q)
			if i := slices.IndexFunc(f.boots, func(r *relay) bool { return r.is(w.Relay.String()) }); i >= 0 {
				victim, note = f.boots[i], fmt.Sprintf("it carried %s and %s", p.kind, q.kind)
			}
		}
	}
	victim.Signal(os.Kill)
	<-victim.Ended
	return note, nil
}

// move takes the peer of siteHome to another network.
func (f *four) move(ctx context.Context) (string, error) {
	if f.holding(f.slot) > 0 {
		return "", errOver
	}
	p := f.peers[siteHome-sitePublic]
	before := f.world.PublicAddr(p.host)
	if err := f.world.Move(ctx, p.host, siteSpare); err != nil {
		return "", err
	}
	return fmt.Sprintf("the %s peer's, from %v to %v", p.kind, before, f.world.PublicAddr(p.host)), nil
}
