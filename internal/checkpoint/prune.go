package checkpoint

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path/filepath"
	"strings"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// Policy says what Prune keeps.
type Policy struct {
	// Keep is the number of certified checkpoints to keep, at least 1. Two let a peer that is fetching one end while the next is made.
	Keep int
	// Hold spares what others are fetching.
	Hold Hold
	// State is the root that a certified record names for the state after the height; false if none does yet.
	State func(height uint64) (slot.Root, bool)
	// Outcome is the outcome root of the certified record at the height, zero if that is no step; false if no record is known there.
	Outcome func(height uint64) (slot.Root, bool)
}

// Prune removes what is not needed any more. It keeps the newest Keep certified checkpoints and what is newer than the
// newest of them, and the outcomes above the oldest one kept; of these it drops the ones that lost their ballot. While no
// checkpoint is certified nothing but contradicted ones go. So a state that others can verify, and all outcomes since, can be
// had at any time.
func (s *Store) Prune(p Policy) error {
	var gone []string
	newest, oldest, kept := uint64(math.MaxUint64), uint64(0), 0
	held, outcomes := map[string]bool{}, uint64(math.MaxUint64)
	for _, c := range s.List() {
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
	gone = append(gone, s.spentOutcomes(p, kept > 0, min(oldest, outcomes-1))...)
	corrupt, err := s.corrupt()
	errs := []error{err}
	if kept > 0 { // whoever has a state of its own has no use for a part of another
		errs = append(errs, s.removePartials(s.inUse()))
	}
	for _, name := range append(gone, corrupt...) {
		errs = append(errs, s.remove(name))
	}
	return errors.Join(errs...)
}

// inUse is the file of the state on its way in, if there is one.
func (s *Store) inUse() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.partial
}

// spentOutcomes lists the outcomes that no state kept needs, and those that were not chosen.
func (s *Store) spentOutcomes(p Policy, certified bool, oldest uint64) (gone []string) {
	s.mu.Lock()
	files := make([]*outcomeFile, 0, len(s.mu.outcomes))
	for _, o := range s.mu.outcomes {
		files = append(files, o)
	}
	s.mu.Unlock()
	for _, o := range files {
		root, known := p.Outcome(o.height)
		if certified && o.height <= oldest || known && root != o.root {
			gone = append(gone, o.name)
		}
	}
	return gone
}

// corrupt lists the files that were set aside.
func (s *Store) corrupt() (names []string, err error) {
	entries, err := s.fs.ReadDir(s.dir)
	if err != nil {
		return nil, fmt.Errorf("checkpoint: %w", err)
	}
	for _, e := range entries {
		base, ok := strings.CutSuffix(e.Name(), corruptSuffix)
		if _, _, _, ours := parseFileName(base); ok && ours {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

// remove takes a file out of the store and off the disk.
func (s *Store) remove(name string) error {
	s.forget(name)
	err := s.fs.Remove(filepath.Join(s.dir, name))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("checkpoint: cannot remove %s: %w", name, err)
	}
	return nil
}
