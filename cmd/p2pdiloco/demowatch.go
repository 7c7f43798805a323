package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/lab"
)

const (
	refresh    = 250 * time.Millisecond
	askEvery   = 2                // refreshes
	stuckAfter = 45 * time.Second // all peers only wait
)

// errStuck ends a demo that can make no progress any more.
var errStuck = errors.New("too few peers are left for the run to go on: the others wait for nothing")

// demoWatcher follows the peers of a swarm until all have ended.
type demoWatcher struct {
	procs  *demoProcesses
	lines  *demoLines
	active time.Time // when a living peer last did something
}

// watch returns nil when all peers have ended, however they did, or an error when they must be
// stopped.
func (w *demoWatcher) watch(ctx context.Context) error {
	tick := time.Tick(refresh)
	w.active = time.Now()
	for n := 0; ; n++ {
		if n%askEvery == 0 {
			w.ask(ctx)
		}
		living, err := w.look()
		if err != nil {
			return err
		}
		w.lines.update(w.procs.peers)
		if living == 0 {
			return nil
		}
		if time.Since(w.active) > stuckAfter {
			return errStuck
		}
		select {
		case <-tick:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// ask polls the living peers, all at once, so that one that hangs holds up nobody but this refresh.
func (w *demoWatcher) ask(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	var wg sync.WaitGroup
	for _, p := range w.procs.peers {
		if !p.exited {
			wg.Go(func() { p.ask(ctx) })
		}
	}
	wg.Wait()
}

// look reads the peers' events, and finds the peers that have ended.
func (w *demoWatcher) look() (living int, err error) {
	for _, p := range w.procs.peers {
		if p.exited {
			continue
		}
		p.code, p.exited = p.Exit() // before the last events are read
		if err := p.Read(p.observe); err != nil {
			return 0, err
		}
		if !p.exited {
			living++
			if !p.idle() {
				w.active = time.Now()
			}
			continue
		}
		if p.code != 0 {
			w.lines.Note(fmt.Sprintf("peer %d (pid %d) ended with exit status %d; the end of its log:\n%s",
				p.n, p.PID(), p.code, lab.Tail(p.Log)))
		}
	}
	return living, nil
}
