package checkpoint

import (
	"math"
	"slices"
	"time"
)

// Hold says how long Prune spares what others are fetching, although newer checkpoints have made it needless here: who fetches a
// large state over a thin link would otherwise never see its end. Whoever may ask can make use of it, so it is bounded.
type Hold struct {
	For     time.Duration // since it was asked for last; 0 spares nothing
	Heights uint64        // behind the newest certified checkpoint, at most
}

// heldStates is the number of states that are spared at once.
const heldStates = 2

// touch notes that somebody fetches from a file. mu is held.
func (s *Store) touch(name string) { s.mu.asked[name] = time.Now() }

// held lists the states that Prune spares, and the height from which on outcomes are.
func (s *Store) held(h Hold, newest uint64) (states map[string]bool, outcomes uint64) {
	states, outcomes = map[string]bool{}, math.MaxUint64
	s.mu.Lock()
	defer s.mu.Unlock()
	least := newest - min(newest, h.Heights)
	var asked []Checkpoint
	for name, at := range s.mu.asked {
		c, isState := s.mu.states[name]
		o, isOutcome := s.mu.outcomes[name]
		switch {
		case !isState && !isOutcome || time.Since(at) > h.For:
			delete(s.mu.asked, name)
		case isState && c.Height >= least:
			asked = append(asked, c)
		case isOutcome && o.height >= least:
			outcomes = min(outcomes, o.height)
		}
	}
	slices.SortFunc(asked, newestFirst)
	for _, c := range asked[:min(len(asked), heldStates)] {
		states[c.name()] = true
		outcomes = min(outcomes, c.Height+1)
	}
	return states, outcomes
}
