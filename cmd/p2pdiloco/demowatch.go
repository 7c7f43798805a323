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

// watch returns nil when all peers have ended, however they did, or an error when they must be
// stopped.
func (s *demoSwarm) watch(ctx context.Context) error {
	tick := time.Tick(refresh)
	s.active = time.Now()
	for n := 0; ; n++ {
		if n%askEvery == 0 {
			s.ask(ctx)
		}
		living, err := s.look()
		if err != nil {
			return err
		}
		s.show()
		if living == 0 {
			return nil
		}
		if time.Since(s.active) > stuckAfter {
			return errStuck
		}
		select {
		case <-tick:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// ask takes the status of the living peers, all at once. Of one that does not answer, the last
// stays.
func (s *demoSwarm) ask(ctx context.Context) {
	var wg sync.WaitGroup
	for _, p := range s.peers {
		wg.Go(func() {
			if now, _, err := p.Ask(ctx); err == nil {
				p.status = now
			}
		})
	}
	wg.Wait()
}

// look reads the peers' events, and finds the peers that have ended.
func (s *demoSwarm) look() (living int, err error) {
	for _, p := range s.peers {
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
				s.active = time.Now()
			}
			continue
		}
		if p.code != 0 {
			s.Note(fmt.Sprintf("peer %d (pid %d) ended with exit status %d; the end of its log:\n%s",
				p.n, p.PID(), p.code, lab.Tail(p.Log)))
		}
	}
	return living, nil
}
