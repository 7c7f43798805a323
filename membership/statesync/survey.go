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
	size  int64              // of the state, in bytes
	want  []Target           // in the order of preference
	begun map[slot.Root]bool // a part of it is here

	asked   map[slot.PeerID]time.Time          // when; the answer is on its way
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

// run returns the preferred one of the wanted states that are held. It waits for patience for a
// first holder, and after that for surveyTime for the other peers.
func (s *survey) run(ctx context.Context) (Target, error) {
	sctx, cancel := context.WithCancel(ctx)
	s.asked, s.holds = map[slot.PeerID]time.Time{}, map[slot.PeerID]map[slot.Root]bool{}
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
			return t, nil
		case s.hopeless():
			return Target{}, s.noDonor("none of the certified states")
		}
		if ok && !found {
			found = true
			end.Reset(surveyTime)
		}
		select {
		case <-ctx.Done():
			return Target{}, ctx.Err()
		case <-end.C:
			if ok {
				return t, nil
			}
			return Target{}, s.noDonor("none of the certified states")
		case <-poll.C:
			s.ask(sctx)
		case a := <-s.answers:
			s.noteAnswer(a)
		}
	}
}

// ask asks every peer that is not known to hold a wanted state. A peer that held none before may
// hold one by now.
func (s *survey) ask(ctx context.Context) {
	now, waiting := time.Now(), 0 // a peer that says nothing does not keep others from being asked
	for _, at := range s.asked {
		if now.Sub(at) < surveyTime {
			waiting++
		}
	}
	for _, p := range s.candidates() {
		if _, asked := s.asked[p]; asked || len(s.holds[p]) > 0 || waiting >= maxSurveyed {
			continue
		}
		s.asked[p] = now
		waiting++
		s.wg.Go(func() {
			list, err := s.dial.list(ctx, p)
			select {
			case s.answers <- answer{p, list, err}:
			case <-ctx.Done():
			}
		})
	}
}

func (s *survey) noteAnswer(a answer) {
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

// best is the preferred state among those that enough peers hold: more than half as many as hold
// the state that most hold. Where a state has one holder, one is enough. Honest peers make their
// checkpoints at the same slots, and keep two, so most of them hold the same ones. If H of them
// hold a state, most is H + L where L liars claim it, too, and L < H is less than half of that.
//
// For a state that was begun any holder is enough: most of it may be here.
func (s *survey) best() (Target, bool) {
	holders := s.holders(func(p slot.PeerID) bool { return s.broken[p] == 0 })
	if len(holders) == 0 { // better than nobody
		holders = s.holders(func(slot.PeerID) bool { return true })
	}
	most := 0
	for _, n := range holders {
		most = max(most, n)
	}
	for _, t := range s.want {
		if n := holders[t.Root]; 2*n > most || n > 0 && s.begun[t.Root] {
			return t, true
		}
	}
	return Target{}, false
}

// holders counts the peers, of those for which in holds, that hold each state.
func (s *survey) holders(in func(slot.PeerID) bool) map[slot.Root]int {
	n := map[slot.Root]int{}
	for p, held := range s.holds {
		for root := range held {
			if in(p) && !s.bad(p) {
				n[root]++
			}
		}
	}
	return n
}

// sides returns the peers that said that they hold t, and those that said that they do not.
func (s *survey) sides(t Target) (holding, lacking map[slot.PeerID]bool) {
	holding, lacking = map[slot.PeerID]bool{}, map[slot.PeerID]bool{}
	for p, held := range s.holds {
		if held[t.Root] {
			holding[p] = true
		} else {
			lacking[p] = true
		}
	}
	return holding, lacking
}

// byPreference sorts states: first those that an earlier fetch has begun, because the outcomes
// since then lead from them to the newest one, then the newer ones.
func byPreference(want []Target, begun map[slot.Root]bool) []Target {
	return slices.SortedFunc(slices.Values(want), func(a, b Target) int {
		if begun[a.Root] != begun[b.Root] {
			if begun[a.Root] {
				return -1
			}
			return 1
		}
		return cmp.Compare(b.Height, a.Height)
	})
}
