package bench

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/p2pdiloco/p2pdiloco"
)

// moments are those of an outer step, in order. Each but the first ends a phase, named before it,
// which begins with the moment before.
var moments = [...]struct{ phase, moment string }{
	{"", "trained"},                 // the last inner step was done
	{"encode", "offered"},           // the contribution was encoded and hashed
	{"plan", "slot.planned"},        // the first plan was followed
	{"reduce", "record.drafted"},    // the leader's: all segments had been stated
	{"hold", "record.proposed"},     // the leader's: a quorum had said HAVE
	{"certify", "record.certified"}, // the record was in the chain here
	{"apply", "slot.applied"},       // the outer step was taken
	{"load", "loaded"},              // the trainer had the new anchor
}

// Indices of moments that are not like the others.
const (
	planned = 2
	drafted = 3
	loaded  = len(moments) - 1
)

// Marks are the moments of one slot on one peer. Those that did not come are zero.
type Marks struct {
	At          [len(moments)]time.Time
	Root        string // of the state after it
	Contributed bool   // the record lists this peer
}

// recorder notes when a peer did what.
type recorder struct {
	mu    sync.Mutex
	slots map[uint64]*Marks
}

// note notes a moment, if it is one, and returns the marks of its slot.
func (r *recorder) note(slot uint64, moment string, at time.Time) *Marks {
	r.mu.Lock()
	defer r.mu.Unlock()
	m := r.slots[slot]
	if m == nil {
		m = &Marks{}
		r.slots[slot] = m
	}
	for i, x := range moments {
		if x.moment == moment && (i != planned || m.At[i].IsZero()) {
			m.At[i] = at
		}
	}
	return m
}

// event notes what a node tells, one event at a time. Records that are no steps of the model are
// not of interest.
func (r *recorder) event(e p2pdiloco.Event) {
	if kind, is := e.Fields["kind"]; is && kind != "step" {
		return
	}
	slot, _ := e.Fields["slot"].(uint64)
	m := r.note(slot, e.Name, e.Time)
	switch e.Name {
	case "slot.committed":
		contributors, _ := e.Fields["contributors"].([]p2pdiloco.PeerID)
		m.Contributed = slices.Contains(contributors, e.Peer)
	case "slot.applied":
		m.Root = fmt.Sprint(e.Fields["state_root"])
	}
}

// samplesOf are the seconds of each phase, and at last of the whole, in each slot that counts on
// each peer; missed is how many there are none of, because the slot went on without the peer. It is
// an error if two peers had different states after a slot.
func samplesOf(slots uint64, peers []Told) (samples [][]float64, missed int, err error) {
	for slot := uint64(warmUps + 1); slot <= warmUps+slots; slot++ {
		var all []Marks
		lead, root := Marks{}, ""
		for _, p := range peers {
			m := cmp.Or(p.Slots[slot], &Marks{})
			all = append(all, *m)
			if m.At[drafted+1].After(lead.At[drafted+1]) {
				lead = *m
			}
			if root = cmp.Or(root, m.Root); root != cmp.Or(m.Root, root) {
				return nil, 0, fmt.Errorf("after slot %d two peers hold different models: state roots %s and %s", slot,
					root, m.Root)
			}
		}
		for _, m := range all {
			copy(m.At[drafted:], lead.At[drafted:drafted+2])
			if s := m.seconds(); s != nil {
				samples = append(samples, s)
			} else {
				missed++
			}
		}
	}
	return samples, missed, nil
}

// seconds divides a slot into its phases; nil if the peer has not all moments, or no part in it.
//
// What the leader saw was seen in another process. Where it comes out of order, because a message
// was quicker than the note of it, the phase between is empty.
func (m Marks) seconds() (s []float64) {
	first, last := m.At[0], m.At[loaded]
	if !m.Contributed || slices.ContainsFunc(m.At[:], time.Time.IsZero) || !last.After(first) {
		return nil
	}
	before := first
	for _, at := range m.At[1:] {
		if at.After(last) {
			at = last
		}
		if at.Before(before) {
			at = before
		}
		s = append(s, at.Sub(before).Seconds())
		before = at
	}
	return append(s, last.Sub(first).Seconds())
}
