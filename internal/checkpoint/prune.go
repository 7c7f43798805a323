package checkpoint

import (
	"errors"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// Policy says what Prune keeps.
type Policy struct {
	// Keep is the number of certified checkpoints to keep, at least 1. Two let a peer that is
	// fetching one end while the next is made.
	Keep int
	// Hold spares what others are fetching.
	Hold Hold
	// State returns the root that a certified record names for the state after the height, and
	// false if no record does yet.
	State func(height uint64) (slot.Root, bool)
	// Outcome returns the outcome root of the certified record at the height, zero if that is no
	// step, and false if no record is known there.
	Outcome func(height uint64) (slot.Root, bool)
}

// Hold says how long Prune spares what others are fetching, although this peer has newer
// checkpoints. Without it a peer that fetches a large state over a thin link would never come to
// its end. Any peer that may ask can make use of it, so it is bounded.
type Hold struct {
	For     time.Duration // since the last request; 0 spares nothing
	Heights uint64        // behind the newest certified checkpoint, at most
}

// heldStates is the number of states that are spared at once.
const heldStates = 2

// Prune removes what is not needed any more. It keeps the newest Keep certified checkpoints and
// everything newer than the newest of them. It keeps the outcomes above the oldest checkpoint kept,
// without those that lost their ballot. As long as no checkpoint is certified it removes only
// contradicted ones. So others can always get a state that they can verify, and all outcomes since.
func (s *Store) Prune(p Policy) error {
	var gone []string
	newest, oldest, kept := uint64(math.MaxUint64), uint64(0), 0
	held, outcomes := map[string]bool{}, uint64(math.MaxUint64)
	for _, c := range s.states.list() {
		root, known := p.State(c.Height)
		certified := known && root == c.Root
		switch {
		case known && !certified: // contradicted
			gone = append(gone, c.name())
		case certified && held[c.name()]:
			kept, oldest = kept+1, c.Height
		case kept >= max(1, p.Keep), kept > 0 && !certified && c.Height < newest:
			gone = append(gone, c.name())
		case certified:
			if kept == 0 {
				newest = c.Height
				held, outcomes = s.held(p.Hold, newest)
			}
			oldest = c.Height
			kept++
		}
	}
	for _, o := range s.outcomes.all() {
		root, known := p.Outcome(o.Height)
		if kept > 0 && o.Height <= min(oldest, outcomes-1) || known && root != o.Root {
			gone = append(gone, o.name)
		}
	}
	corrupt, err := s.corrupt()
	errs := []error{err}
	if kept > 0 { // a peer with a state of its own has no use for a part of another
		errs = append(errs, s.incoming.removeUnused())
	}
	for _, name := range gone {
		s.states.forget(name)
		s.outcomes.forget(name)
	}
	errs = append(errs, s.folder.recycle(gone))
	for _, name := range corrupt {
		errs = append(errs, s.folder.remove(name))
	}
	return errors.Join(errs...)
}

// held lists the states that others are fetching, and the height from which on outcomes are spared.
func (s *Store) held(h Hold, newest uint64) (states map[string]bool, outcomes uint64) {
	states, outcomes = map[string]bool{}, math.MaxUint64
	least := newest - min(newest, h.Heights)
	var asked []Checkpoint
	for _, name := range s.requests.within(h.For) {
		if c, ok := s.states.named(name); ok && c.Height >= least {
			asked = append(asked, c.Checkpoint)
		} else if o, ok := s.outcomes.named(name); ok && o.Height >= least {
			outcomes = min(outcomes, o.Height)
		}
	}
	slices.SortFunc(asked, newestFirst)
	for _, c := range asked[:min(len(asked), heldStates)] {
		states[c.name()] = true
		outcomes = min(outcomes, c.Height+1)
	}
	return states, outcomes
}

// corrupt lists the files that were set aside.
func (s *Store) corrupt() (names []string, err error) {
	all, err := s.folder.names()
	if err != nil {
		return nil, err
	}
	for _, name := range all {
		base, ok := strings.CutSuffix(name, corruptSuffix)
		if _, _, _, ours := parseFileName(base); ok && ours {
			names = append(names, name)
		}
	}
	return names, nil
}

// requests remembers from which files other peers fetch, and when they did so last.
type requests struct{ catalog[time.Time] }

func (r *requests) note(name string) { r.add(name, time.Now()) }

// within lists the files that were asked for within a time, and forgets the others.
func (r *requests) within(d time.Duration) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.mu.files, func(_ string, at time.Time) bool { return time.Since(at) > d })
	return slices.Collect(maps.Keys(r.mu.files))
}
