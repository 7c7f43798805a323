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

// Target is a state that would do: the one after the record at Height. A certified record names its
// root.
type Target struct {
	Height uint64
	Slot   uint64
	Root   slot.Root
}

const maxSurveyed = 32 // peers asked at once

// survey finds out which peers hold which of the wanted states. One goroutine runs it. Each answer
// comes from a goroutine of its own.
type survey struct {
	*transfer
	size int64    // of the state, in bytes
	want []Target // in the order of preference

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

// run returns the preferred one of the wanted states that are held, and the peers that said that
// they lack it. It waits for patience for a first holder, and after that for surveyTime for the
// other peers.
func (s *survey) run(ctx context.Context) (Target, map[slot.PeerID]bool, error) {
	sctx, cancel := context.WithCancel(ctx)
	s.asked, s.holds = map[slot.PeerID]bool{}, map[slot.PeerID]map[slot.Root]bool{}
	s.failed, s.answers = map[slot.PeerID]int{}, make(chan answer)
	defer s.wg.Wait()
	defer cancel()
	poll := time.NewTicker(pollTime)
	defer poll.Stop()
	end := time.NewTimer(patience)
	defer end.Stop()
	found := false
	s.ask(sctx)
	for {
		t, ok := s.best()
		switch {
		case ok && len(s.asked) == 0:
			return t, s.lacking(t), nil
		case s.hopeless():
			return Target{}, nil, s.noDonor("none of the certified states")
		}
		if ok && !found {
			found = true
			end.Reset(surveyTime)
		}
		select {
		case <-ctx.Done():
			return Target{}, nil, ctx.Err()
		case <-end.C:
			if ok {
				return t, s.lacking(t), nil
			}
			return Target{}, nil, s.noDonor("none of the certified states")
		case <-poll.C:
			s.ask(sctx)
		case a := <-s.answers:
			s.take(a)
		}
	}
}

// ask asks every peer that is not known to hold a wanted state. A peer that held none before may
// hold one by now.
func (s *survey) ask(ctx context.Context) {
	for _, p := range s.from() {
		if s.asked[p] || len(s.holds[p]) > 0 || s.bad(p) || len(s.asked) >= maxSurveyed {
			continue
		}
		s.asked[p] = true
		s.wg.Go(func() {
			list, err := s.dial.list(ctx, p)
			select {
			case s.answers <- answer{p, list, err}:
			case <-ctx.Done():
			}
		})
	}
}

func (s *survey) take(a answer) {
	delete(s.asked, a.peer)
	held := map[slot.Root]bool{}
	for _, c := range a.list {
		if !slices.ContainsFunc(s.want, func(t Target) bool { return t.Root == c.Root }) {
			continue
		}
		if c.Size != s.size {
			a.err = &lieError{fmt.Errorf("a state of %d bytes where this run has %d", c.Size, s.size)}
		}
		held[c.Root] = true
	}
	var liar *lieError
	switch {
	case errors.As(a.err, &liar):
		s.drop(Bad{a.peer, a.err.Error(), true})
	case a.err == nil:
		s.holds[a.peer] = held
	default: // asked again at the next poll
		s.failed[a.peer]++
		s.cfg.Logger.Debug("a peer does not say what it holds", "peer", a.peer, "error", a.err)
	}
}

// hopeless tells whether every peer that can be reached has answered and none holds a wanted state.
// It makes no sense to wait then: the next checkpoint that a peer makes is a newer one, and nobody
// wants it yet.
func (s *survey) hopeless() bool {
	if len(s.asked) > 0 || len(s.holds) == 0 {
		return false
	}
	for _, p := range s.from() {
		silent := s.holds[p] == nil && !s.bad(p) && s.failed[p] < maxStrikes
		if silent || len(s.holds[p]) > 0 {
			return false
		}
	}
	return true
}

// best is the preferred state among those that are held.
func (s *survey) best() (Target, bool) {
	for _, t := range s.want {
		for p := range s.holds {
			if s.holds[p][t.Root] {
				return t, true
			}
		}
	}
	return Target{}, false
}

// lacking returns the peers that said that they do not hold t.
func (s *survey) lacking(t Target) map[slot.PeerID]bool {
	lacking := map[slot.PeerID]bool{}
	for p, held := range s.holds {
		if !held[t.Root] {
			lacking[p] = true
		}
	}
	return lacking
}

// byPreference sorts states: first those that an earlier fetch has begun, because the outcomes
// since then lead from them to the newest one, then the newer ones.
func byPreference(want []Target, begun func(Target) bool) []Target {
	started := map[slot.Root]int{}
	for _, t := range want {
		if begun(t) {
			started[t.Root] = 1
		}
	}
	return slices.SortedFunc(slices.Values(want), func(a, b Target) int {
		return cmp.Or(cmp.Compare(started[b.Root], started[a.Root]), cmp.Compare(b.Height, a.Height))
	})
}
