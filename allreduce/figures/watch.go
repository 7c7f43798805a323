package figures

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// kept is the number of a member's newest contributions that a new one is compared with.
const kept = 64

// watch keeps what the members have sent, as far as a new contribution is compared with it.
type watch struct {
	weighing func(usual uint64) slot.Weighing
	newest   uint64                 // slot
	sent     map[slot.PeerID][]sent // the newest last
}

// sent is a contribution that a record lists.
type sent struct {
	slot     uint64
	fragment uint32
	mark     mark
}

func newWatch(weighing func(usual uint64) slot.Weighing) *watch {
	return &watch{weighing: weighing, sent: map[slot.PeerID][]sent{}}
}

// noteRecord takes in the record of a step, and returns what is odd about its contributions. leaves
// is what a contribution commits to, where that was seen here.
func (w *watch) noteRecord(r slot.Record, leaves func(slot.Offer) ([]slot.FrameLeaf, bool)) (odd []Finding) {
	marks := make([]mark, len(r.Contributions))
	for i, o := range r.Contributions {
		if l, seen := leaves(o); seen {
			marks[i] = markOf(l)
		}
	}
	w.forget(r)
	odd = append(w.weigh(r), w.compare(r, marks)...)
	for i, o := range r.Contributions {
		if marks[i] != nil {
			odd = append(odd, w.again(r, o.Peer, marks[i])...)
		}
	}
	return odd
}

// forget forgets members that are gone. Where the chain has changed for another branch, what was
// sent to slots that are decided anew was not sent before.
func (w *watch) forget(r slot.Record) {
	back := r.Slot <= w.newest
	w.newest = r.Slot
	maps.DeleteFunc(w.sent, func(p slot.PeerID, _ []sent) bool {
		return slot.Find(r.Members, p) < 0 &&
			!slices.ContainsFunc(r.Contributions, func(o slot.Offer) bool { return o.Peer == p })
	})
	for p, all := range w.sent {
		if back {
			w.sent[p] = slices.DeleteFunc(all, func(s sent) bool { return s.slot >= r.Slot })
		}
	}
}

// weigh says whose claims do not count.
func (w *watch) weigh(r slot.Record) (odd []Finding) {
	weighing, empty := w.weighing(r.Usual), slot.Empty(r.Contributions)
	for i, weight := range weighing.Weights(r.Contributions) {
		o := r.Contributions[i]
		switch {
		case empty.Has(i):
			words := fmt.Sprintf("sends nothing (norm %.3g)", math.Sqrt(o.NormSq))
			if weighing.Empties {
				words += ": it weighs nothing and earns no credit"
			}
			odd = append(odd, Finding{Peer: o.Peer, Kind: Zeros, Words: words})
		case weight < o.Weight:
			odd = append(odd, Finding{Peer: o.Peer, Kind: Capped, Words: fmt.Sprintf(
				"weight capped: it claims %d and counts as %d, %d times the median", o.Weight, weight, weighing.Ratio)})
		}
	}
	return odd
}

// compare finds contributions to one slot that are the same. Each is compared with the first one
// that has an equal frame in a place, so a thousand copies cost no more than a thousand others.
func (w *watch) compare(r slot.Record, marks []mark) (odd []Finding) {
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
				odd = append(odd, sameBytes(a, b), sameBytes(b, a))
				break
			}
		}
	}
	return odd
}

func sameBytes(p, other slot.PeerID) Finding {
	return Finding{
		Peer: p, Kind: SameBytes, Other: other,
		Words: fmt.Sprintf("same bytes as %s: same data and seed?", other.Short()),
	}
}

// again finds a contribution of the member itself that is the same, and keeps this one.
func (w *watch) again(r slot.Record, p slot.PeerID, now mark) (odd []Finding) {
	before := w.sent[p]
	for _, s := range slices.Backward(before) {
		if s.fragment == r.Fragment && same(equal(now, s.mark), now, s.mark) {
			odd = append(odd, Finding{
				Peer: p, Kind: SentAgain, Words: fmt.Sprintf("sent the contribution of slot %d again", s.slot),
			})
			break
		}
	}
	before = append(before, sent{r.Slot, r.Fragment, now})
	w.sent[p] = before[max(0, len(before)-kept):]
	return odd
}

// markFrames is the number of frames that a contribution is known by, at most. They lie at equal
// distances.
const markFrames = 32

// mark is what a contribution is known by: the first 8 bytes of the hashes of some frames. It has
// 0 for a frame of zeros, which honest contributions to a part that does not change have in common.
type mark []uint64

func markOf(leaves []slot.FrameLeaf) mark {
	n := min(len(leaves), markFrames)
	p := make(mark, n)
	for i := range p {
		if l := leaves[len(leaves)*i/n]; l.NormSq > 0 {
			p[i] = max(1, binary.BigEndian.Uint64(l.Hash[:]))
		}
	}
	return p
}

// filled counts the frames that are not zeros.
func (p mark) filled() (n int) {
	for _, v := range p {
		if v != 0 {
			n++
		}
	}
	return n
}

// same says whether so many equal frames make two contributions the same: more than half of those
// that are not zeros in either. A few are equal among honest peers, too: rows of an embedding that
// nobody's data uses change by the weight decay alone.
func same(equal int, a, b mark) bool { return 2*equal > max(a.filled(), b.filled()) }

// equal counts the frames that two contributions to the same fragment have in common.
func equal(a, b mark) (n int) {
	for i := range min(len(a), len(b)) {
		if a[i] != 0 && a[i] == b[i] {
			n++
		}
	}
	return n
}
