package step

import (
	"slices"
	"sync"
	"time"

	"github.com/p2pdiloco/p2pdiloco"
)

// marks are the moments of one slot on one peer. Those that did not come are zero.
type marks struct {
	Trained     time.Time // the last inner step was done
	Offered     time.Time // the contribution was encoded and hashed
	Planned     time.Time // the first plan was followed
	Certified   time.Time // the record was in the chain here
	Applied     time.Time // the outer step was taken
	Loaded      time.Time // the trainer had the new anchor
	Record      string    // hash of the record
	Root        string    // of the state after it
	Contributed bool      // the record lists this peer
}

// lead is what a leader did for one record.
type lead struct {
	Drafted  time.Time // all segments had been stated
	Proposed time.Time // a quorum had said HAVE
}

// recorder notes when a peer did what.
type recorder struct {
	mu struct {
		sync.Mutex
		loaded  time.Time
		drafted map[draft]time.Time
		slots   map[uint64]*marks
		leads   map[string]lead // by record
	}
}

// draft names a draft of one leader.
type draft struct {
	height uint64
	ballot uint32
}

func newRecorder() *recorder {
	r := &recorder{}
	r.mu.drafted, r.mu.slots, r.mu.leads = map[draft]time.Time{}, map[uint64]*marks{}, map[string]lead{}
	return r
}

// slot returns the marks of a slot. The lock is held.
func (r *recorder) slot(number uint64) *marks {
	if r.mu.slots[number] == nil {
		r.mu.slots[number] = &marks{}
	}
	return r.mu.slots[number]
}

// loaded notes that the trainer has an anchor; trained, that it was that of the slot before.
func (r *recorder) loaded(at time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.loaded = at
}

func (r *recorder) trained(slot uint64, at time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.slot(slot - 1).Loaded = r.mu.loaded
	r.slot(slot).Trained = at
}

// offered notes that a contribution is about to be offered.
func (r *recorder) offered(slot uint64, at time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.slot(slot).Offered = at
}

// event notes what a node tells. Records that are no steps of the model are not of interest.
func (r *recorder) event(e p2pdiloco.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	number, _ := e.Fields["slot"].(uint64)
	if kind, is := e.Fields["kind"]; is && kind != "step" {
		return
	}
	switch e.Name {
	case "slot.planned":
		if m := r.slot(number); m.Planned.IsZero() {
			m.Planned = e.Time
		}
	case "record.drafted":
		r.mu.drafted[draftOf(e)] = e.Time
	case "record.proposed":
		if record := rootOf(e, "record"); r.mu.leads[record].Proposed.IsZero() {
			r.mu.leads[record] = lead{r.mu.drafted[draftOf(e)], e.Time}
		}
	case "record.certified":
		m := r.slot(number)
		m.Certified, m.Record = e.Time, rootOf(e, "record")
	case "slot.committed":
		contributors, _ := e.Fields["contributors"].([]p2pdiloco.PeerID)
		r.slot(number).Contributed = slices.Contains(contributors, e.Peer)
	case "slot.applied":
		m := r.slot(number)
		m.Applied, m.Root = e.Time, rootOf(e, "state_root")
	}
}

func draftOf(e p2pdiloco.Event) draft {
	height, _ := e.Fields["height"].(uint64)
	ballot, _ := e.Fields["ballot"].(uint32)
	return draft{height, ballot}
}

func rootOf(e p2pdiloco.Event, field string) string {
	root, _ := e.Fields[field].(p2pdiloco.Root)
	return root.String()
}
