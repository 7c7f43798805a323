package auditor

import (
	"math"
	"sync"
)

// Sampled says how much of an outcome its electors check before they agree to it.
type Sampled struct {
	Slot uint64 `json:"slot"`
	// that a quorum of them takes of each segment, or, where their number differs, of the segment
	// with the fewest
	Samples int `json:"samples"`
	// that the run asks for; 0: everything
	Of int `json:"of"`
	// each elector checks all of each segment
	Whole bool   `json:"whole,omitempty"`
	Why   string `json:"why,omitempty"` // there are fewer than the run asks for, in words
}

// tooDear is why fewer samples are taken.
const tooDear = "more would cost over 5% of a slot's bytes"

// sampling keeps what was sampled in the newest slot.
type sampling struct {
	mu struct {
		sync.Mutex
		newest *Sampled // nil: nothing was
	}
}

// note takes in that this elector takes n samples of a segment of which there are so many, where
// the electors of a quorum were to take as many as asked together.
func (s *sampling) note(slotNumber uint64, n, parts, asked, quorum int) {
	one := Sampled{Slot: slotNumber, Samples: n * max(1, quorum), Of: asked, Whole: n >= parts}
	switch {
	case asked == math.MaxInt:
		one.Samples, one.Of = parts, 0
	case one.Samples >= asked:
		one.Samples = asked
	case !one.Whole:
		one.Why = tooDear
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.newest == nil || one.says(*s.mu.newest) {
		s.mu.newest = &one
	}
}

// says says whether what was sampled of a segment is to be told, and not what was before.
func (s Sampled) says(before Sampled) bool {
	switch {
	case s.Slot != before.Slot:
		return s.Slot > before.Slot
	case s.Whole != before.Whole:
		return before.Whole
	}
	return s.Samples < before.Samples
}

// Sampled says how much is checked of the newest slot's outcome; nil: nothing yet.
func (a *Auditor) Sampled() *Sampled {
	a.taken.mu.Lock()
	defer a.taken.mu.Unlock()
	return a.taken.mu.newest
}
