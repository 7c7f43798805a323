package liveness

import (
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
)

// What makes a connection count as one that comes and goes. One interruption says little: a machine
// was busy. Those that ended with a process, and not with a connection, say nothing.
const (
	// interruptions that lie so close together count
	unsteadyWithin = 5 * time.Minute
	// unsteadyTerm is for how long the connection must then hold to be trusted again.
	unsteadyTerm = 2 * time.Minute
	maxUnsteady  = 4096 // peers whose interruptions are remembered
	leastGap     = time.Second
)

// interruptions remembers when peers that pulse were silent for longer than their pulses allow, or
// lost their last connection, and when connections to them stalled.
type interruptions struct {
	mu struct {
		sync.Mutex
		of map[peer.ID]interrupted
	}
}

// interrupted is when a peer was interrupted last, and the time before that.
type interrupted struct {
	last, before time.Time
	stalls       [stallsCount]time.Time // the newest last
	hangs        bool                   // something waits for an acknowledgement for too long
}

func newInterruptions() *interruptions {
	i := &interruptions{}
	i.mu.of = make(map[peer.ID]interrupted)
	return i
}

func (i *interruptions) note(id peer.ID, now time.Time) {
	i.change(id, func(at *interrupted) { at.last, at.before = now, at.last })
}

// stalled notes a stall. Enough of them within a while are two interruptions.
func (i *interruptions) stalled(id peer.ID, now time.Time) {
	i.change(id, func(at *interrupted) {
		copy(at.stalls[:], at.stalls[1:])
		if at.stalls[stallsCount-1] = now; now.Sub(at.stalls[0]) < stallsWithin {
			at.last, at.before = now, now
		}
	})
}

// hangs notes whether something waits for an acknowledgement for too long now.
func (i *interruptions) hangs(id peer.ID, now bool) {
	if i.hanging(id) != now {
		i.change(id, func(at *interrupted) { at.hangs = now })
	}
}

func (i *interruptions) hanging(id peer.ID) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.mu.of[id].hangs
}

func (i *interruptions) change(id peer.ID, by func(*interrupted)) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if len(i.mu.of) >= maxUnsteady {
		clear(i.mu.of)
	}
	at := i.mu.of[id]
	by(&at)
	i.mu.of[id] = at
}

func (i *interruptions) forget(id peer.ID) {
	i.mu.Lock()
	defer i.mu.Unlock()
	delete(i.mu.of, id)
}

func (i *interruptions) unsteady(id peer.ID, now time.Time) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	at, known := i.mu.of[id]
	return known && now.Sub(at.last) < unsteadyTerm && at.last.Sub(at.before) < unsteadyWithin
}

// Broke notes that the last connection to a peer has ended.
func (s *Signs) Broke(id peer.ID) { s.interruptions.note(id, time.Now()) }

// heardAgain notes that a peer was silent for longer than its pulses allow, if it was.
func (s *Signs) heardAgain(id peer.ID, was heard, now time.Time) {
	if allowed := s.pulse + max(s.pulse/4, leastGap); s.pulse > 0 && now.Sub(was.atAll) > allowed {
		s.interruptions.note(id, now)
	}
}

// Unsteady says whether the connection to one of some peers comes and goes. Where that is so of
// most of them the fault is likely to be here, and is nobody's.
func (s *Signs) Unsteady(id peer.ID, among func() []peer.ID) bool {
	now := time.Now()
	return theirs(id, among, func(id peer.ID) bool { return s.interruptions.unsteady(id, now) })
}

// Hangs says whether what was sent to one of some peers waits for an acknowledgement for too long
// now, likewise.
func (s *Signs) Hangs(id peer.ID, among func() []peer.ID) bool {
	return theirs(id, among, s.interruptions.hanging)
}

// theirs says whether something is wrong with one of some peers, and not with most of them.
func theirs(id peer.ID, among func() []peer.ID, wrong func(peer.ID) bool) bool {
	if !wrong(id) {
		return false
	}
	all, count := among(), 0
	for _, p := range all {
		if wrong(p) {
			count++
		}
	}
	return 2*count <= len(all)
}
