package statesync

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/checkpoint"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// survey is the question who holds what. One goroutine keeps it; answers come from one goroutine for each peer asked.
type survey struct {
	f       *stateFetch
	asked   map[slot.PeerID]bool               // the answer is on its way
	holds   map[slot.PeerID]map[slot.Root]bool // the answers
	failed  map[slot.PeerID]int                // how often a peer gave none
	answers chan answer
	wg      sync.WaitGroup
}

type answer struct {
	peer slot.PeerID
	list []checkpoint.Checkpoint
	err  error
}

// survey gives the newest wanted state that somebody holds, and the peers that said they lack it. It waits Patience for
// anybody to hold one, and from then on Survey for the others to answer.
func (f *stateFetch) survey(ctx context.Context) (Target, map[slot.PeerID]bool, error) {
	sctx, cancel := context.WithCancel(ctx)
	s := &survey{f: f, asked: map[slot.PeerID]bool{}, holds: map[slot.PeerID]map[slot.Root]bool{}, failed: map[slot.PeerID]int{}, answers: make(chan answer)}
	defer s.wg.Wait()
	defer cancel()
	poll := time.NewTicker(f.c.cfg.Poll)
	defer poll.Stop()
	end := time.NewTimer(f.c.cfg.Patience)
	defer end.Stop()
	found := false
	s.ask(sctx)
	for {
		t, ok := s.best()
		switch {
		case ok && len(s.asked) == 0:
			return t, s.lacking(t), nil
		case s.hopeless():
			return Target{}, nil, s.f.report.noDonor("none of the certified states")
		}
		if ok && !found {
			found = true
			end.Reset(f.c.cfg.Survey)
		}
		select {
		case <-ctx.Done():
			return Target{}, nil, ctx.Err()
		case <-end.C:
			if ok {
				return t, s.lacking(t), nil
			}
			return Target{}, nil, f.report.noDonor("none of the certified states")
		case <-poll.C:
			s.ask(sctx)
		case a := <-s.answers:
			s.take(a)
		}
	}
}

// ask asks everybody who has not said yet that it holds a wanted state; some may hold one by now.
func (s *survey) ask(ctx context.Context) {
	for _, p := range s.f.from() {
		if s.asked[p] || len(s.holds[p]) > 0 || s.f.report.bad(p) || len(s.asked) >= maxSurveyed {
			continue
		}
		s.asked[p] = true
		s.wg.Go(func() {
			list, err := s.f.c.list(ctx, p)
			select {
			case s.answers <- answer{p, list, err}:
			case <-ctx.Done():
			}
		})
	}
}

const maxSurveyed = 32 // peers asked at once

// list asks one peer.
func (c *Client) list(ctx context.Context, p slot.PeerID) ([]checkpoint.Checkpoint, error) {
	n, err := c.dial(ctx, p)
	if err != nil {
		return nil, err
	}
	list, err := n.list()
	n.close(err != nil)
	return list, err
}

func (s *survey) take(a answer) {
	delete(s.asked, a.peer)
	held := map[slot.Root]bool{}
	for _, c := range a.list {
		if !slices.ContainsFunc(s.f.want, func(t Target) bool { return t.Root == c.Root }) {
			continue
		}
		if c.Size != s.f.size {
			a.err = &lieError{fmt.Errorf("a state of %d bytes where this run has %d", c.Size, s.f.size)}
		}
		held[c.Root] = true
	}
	var liar *lieError
	switch {
	case errors.As(a.err, &liar):
		s.f.c.drop(&s.f.report, Bad{a.peer, a.err.Error(), true})
	case a.err == nil:
		s.holds[a.peer] = held
	default: // asked again at the next poll
		s.failed[a.peer]++
		s.f.c.cfg.Logger.Debug("a peer does not say what it holds", "peer", a.peer, "error", a.err)
	}
}

// hopeless says whether everybody who can be reached has answered and nobody holds a wanted state. Who makes a checkpoint from now
// on makes a newer one, which is not wanted yet: to wait would be for nothing.
func (s *survey) hopeless() bool {
	if len(s.asked) > 0 || len(s.holds) == 0 {
		return false
	}
	for _, p := range s.f.from() {
		silent := s.holds[p] == nil && !s.f.report.bad(p) && s.failed[p] < maxStrikes
		if silent || len(s.holds[p]) > 0 {
			return false
		}
	}
	return true
}

// best is the newest wanted state that is held, or the one that was begun before: the outcomes since lead from it to the newest.
func (s *survey) best() (Target, bool) {
	begun := slices.Clone(s.f.want)
	slices.SortStableFunc(begun, func(a, b Target) int { return cmp.Compare(s.f.begun[b.Root], s.f.begun[a.Root]) })
	for _, t := range begun {
		for p := range s.holds {
			if s.holds[p][t.Root] {
				return t, true
			}
		}
	}
	return Target{}, false
}

// lacking is who said that it does not hold t.
func (s *survey) lacking(t Target) map[slot.PeerID]bool {
	gone := map[slot.PeerID]bool{}
	for p, held := range s.holds {
		if !held[t.Root] {
			gone[p] = true
		}
	}
	return gone
}
