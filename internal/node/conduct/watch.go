package conduct

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

const (
	// kept is the number of a member's newest contributions that a new one is compared with.
	kept = 64
	// stands is for how many slots a finding is shown after the newest one that gave it.
	stands = 8
)

// Kind says what is odd. The names are those of the event peer.conduct, and only grow.
type Kind string

// What can be odd about a contribution.
const (
	SameBytes Kind = "same_bytes" // as another member's to the same slot
	SentAgain Kind = "sent_again" // the member's own, of a slot before
	Empty     Kind = "empty"      // nothing in it: it weighs nothing
	Capped    Kind = "capped"     // claims more weight than it has
)

// Watch keeps what is odd about the members' contributions. Its methods may be called from any
// goroutine.
type Watch struct {
	weighing func(usual uint64) slot.Weighing
	emit     func(name string, fields map[string]any)
	mu       struct {
		sync.Mutex
		newest uint64                     // slot
		sent   map[slot.PeerID][]sent     // the newest last
		found  map[slot.PeerID][]*finding // in the order in which they were made
		begun  []map[string]any           // events that are not told yet
	}
}

// sent is a contribution that a record lists.
type sent struct {
	slot     uint64
	fragment uint32
	mark     mark
}

// finding is one odd thing about one member.
type finding struct {
	kind  Kind
	other slot.PeerID // SameBytes
	slot  uint64      // the newest that gave it
	words string
}

// New makes a Watch. weighing says what contributions weigh where a record states a usual weight.
// emit takes the event peer.conduct when a finding begins.
func New(weighing func(usual uint64) slot.Weighing, emit func(name string, fields map[string]any)) *Watch {
	c := &Watch{weighing: weighing, emit: emit}
	c.mu.sent, c.mu.found = map[slot.PeerID][]sent{}, map[slot.PeerID][]*finding{}
	return c
}

// Took takes in the record of a step. leaves is what a contribution commits to, where that was seen
// here.
func (c *Watch) Took(r slot.Record, leaves func(slot.Offer) ([]slot.FrameLeaf, bool)) {
	marks := make([]mark, len(r.Contributions))
	for i, o := range r.Contributions {
		if l, seen := leaves(o); seen {
			marks[i] = markOf(l)
		}
	}
	for _, fields := range c.take(r, marks) { // whoever hears of it may ask for Words
		c.emit("peer.conduct", fields)
	}
}

// take takes in a record and returns the events that it gives.
func (c *Watch) take(r slot.Record, marks []mark) (events []map[string]any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.expire(r)
	c.weigh(r)
	c.compare(r, marks)
	for i, o := range r.Contributions {
		if marks[i] != nil {
			c.again(r, o.Peer, marks[i])
		}
	}
	events, c.mu.begun = c.mu.begun, nil
	return events
}

// Words returns what is odd about each member, in plain words: members about which nothing is are
// left out.
func (c *Watch) Words() map[slot.PeerID][]string {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := map[slot.PeerID][]string{}
	for p, fs := range c.mu.found {
		for _, f := range fs {
			all[p] = append(all[p], f.words)
		}
	}
	return all
}

// expire forgets old findings, and members that are gone. Where the chain has changed for another
// branch, what was sent to slots that are decided anew was not sent before.
func (c *Watch) expire(r slot.Record) {
	back := r.Slot <= c.mu.newest
	c.mu.newest = r.Slot
	gone := func(p slot.PeerID) bool {
		return slot.Find(r.Members, p) < 0 &&
			!slices.ContainsFunc(r.Contributions, func(o slot.Offer) bool { return o.Peer == p })
	}
	maps.DeleteFunc(c.mu.sent, func(p slot.PeerID, _ []sent) bool { return gone(p) })
	for p, all := range c.mu.sent {
		if back {
			c.mu.sent[p] = slices.DeleteFunc(all, func(s sent) bool { return s.slot >= r.Slot })
		}
	}
	for p, fs := range c.mu.found {
		fs = slices.DeleteFunc(fs, func(f *finding) bool { return gone(p) || back || f.slot+stands < r.Slot })
		if c.mu.found[p] = fs; len(fs) == 0 {
			delete(c.mu.found, p)
		}
	}
}

// weigh says whose claims do not count.
func (c *Watch) weigh(r slot.Record) {
	w := c.weighing(r.Usual)
	for i, weight := range w.Weights(r.Contributions) {
		o := r.Contributions[i]
		switch {
		case weight == 0 && w.Empties:
			c.find(o.Peer, finding{Empty, "", r.Slot, fmt.Sprintf("sends nothing (norm %.3g): it weighs nothing and "+
				"earns no credit", math.Sqrt(o.NormSq))})
		case weight < o.Weight:
			c.find(o.Peer, finding{Capped, "", r.Slot, fmt.Sprintf("weight capped: it claims %d and counts as %d, %d "+
				"times the median", o.Weight, weight, w.Ratio)})
		}
	}
}

// compare finds contributions to one slot that are the same. Each is compared with the first one
// that has an equal frame in a place, so a thousand copies cost no more than a thousand others.
func (c *Watch) compare(r slot.Record, marks []mark) {
	type place struct {
		at   int
		hash uint64
	}
	first := map[place]int{}
	for i, p := range marks {
		equal := map[int]int{} // frames, by the contribution before that has them
		for at, hash := range p {
			if hash == 0 {
				continue
			}
			if j, had := first[place{at, hash}]; had {
				equal[j]++
			} else {
				first[place{at, hash}] = i
			}
		}
		for _, j := range slices.Sorted(maps.Keys(equal)) {
			if same(equal[j], p, marks[j]) {
				a, b := r.Contributions[i].Peer, r.Contributions[j].Peer
				c.find(a, sameBytes(r.Slot, b))
				c.find(b, sameBytes(r.Slot, a))
				break
			}
		}
	}
}

func sameBytes(slotNumber uint64, other slot.PeerID) finding {
	return finding{
		SameBytes, other, slotNumber, fmt.Sprintf("same bytes as %s: same data and seed?", other.Short()),
	}
}

// again finds a contribution of the member itself that is the same, and keeps this one.
func (c *Watch) again(r slot.Record, p slot.PeerID, now mark) {
	before := c.mu.sent[p]
	for _, s := range slices.Backward(before) {
		if s.fragment == r.Fragment && same(equal(now, s.mark), now, s.mark) {
			c.find(p, finding{SentAgain, "", r.Slot, fmt.Sprintf("sent the contribution of slot %d again", s.slot)})
			break
		}
	}
	before = append(before, sent{r.Slot, r.Fragment, now})
	c.mu.sent[p] = before[max(0, len(before)-kept):]
}

// find takes down a finding. It is an event where it did not stand before. Of copies a member is
// shown the first few.
func (c *Watch) find(p slot.PeerID, f finding) {
	const most = 4 // of a kind
	of := 0
	for _, old := range c.mu.found[p] {
		if old.kind == f.kind && old.other == f.other {
			*old = f
			return
		}
		if old.kind == f.kind {
			of++
		}
	}
	if of >= most {
		return
	}
	c.mu.found[p] = append(c.mu.found[p], &f)
	c.mu.begun = append(c.mu.begun, map[string]any{
		"about": p, "finding": string(f.kind), "slot": f.slot, "detail": f.words,
	})
}
