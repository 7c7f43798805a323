package figures

import (
	"cmp"
	"slices"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// Kind is what a finding says. The enumeration only grows.
type Kind string

// The kinds of findings.
const (
	Opposite    Kind = "opposite"     // it points the other way than the others
	TooLarge    Kind = "too_large"    // it sends far longer vectors than the others
	SameBytes   Kind = "same_bytes"   // as another member's to the same slot
	SentAgain   Kind = "sent_again"   // the member's own, of a slot before
	Zeros       Kind = "zeros"        // about nothing in it
	Capped      Kind = "capped"       // claims more weight than it has
	OwnOpposite Kind = "own_opposite" // an alarm about this peer itself
)

var words = map[Kind]string{
	Opposite: "sends about the opposite of what the others send",
	TooLarge: "sends values far larger than those of the others",
	OwnOpposite: "what this peer sends is about the opposite of what the others send: probably its data, the sign of " +
		"its loss or its optimizer is wrong (of two or three peers it may be another's); stop this peer and " +
		"compare its trainer with another one's",
}

// Words are a kind that is told by figures in plain words, of which the subject is the peer.
func (k Kind) Words() string { return words[k] }

// Finding says that a member stands out.
type Finding struct {
	Peer  slot.PeerID `json:"peer"`
	Kind  Kind        `json:"kind"`
	Words string      `json:"words"`
	Since uint64      `json:"since"` // slot
	// Other is the member that it is like, if it is like one.
	Other slot.PeerID `json:"other,omitempty"`
	noted uint64      // the newest slot that gave it, of what was noted; else 0
}

// Change is a finding that begins or ends.
type Change struct {
	Finding
	Slot   uint64
	Begins bool
}

// findings are those that hold.
type findings []Finding

// set takes in whether something holds of a peer, and says whether that is new.
func (f *findings) set(slotNumber uint64, peer slot.PeerID, kind Kind, holds bool) (Change, bool) {
	i := slices.IndexFunc(*f, func(o Finding) bool { return o.Peer == peer && o.Kind == kind })
	switch {
	case holds == (i >= 0):
		return Change{}, false
	case holds:
		found := Finding{Peer: peer, Kind: kind, Words: kind.Words(), Since: slotNumber}
		f.add(found)
		return Change{found, slotNumber, true}, true
	default:
		found := (*f)[i]
		*f = slices.Delete(*f, i, i+1)
		return Change{found, slotNumber, false}, true
	}
}

func (f *findings) add(found Finding) {
	*f = append(*f, found)
	slices.SortFunc(*f, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.Peer, b.Peer), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Other, b.Other))
	})
}

// note takes in what is odd about a contribution, and says whether that is new. Of the members that
// another one is like, the first few are named.
func (f *findings) note(odd Finding) bool {
	alike := 0
	for i, old := range *f {
		if old.Peer != odd.Peer || old.Kind != odd.Kind {
			continue
		}
		if alike++; old.Other == odd.Other {
			odd.Since = old.Since
			(*f)[i] = odd
			return false
		}
	}
	if alike >= mostAlike {
		return false
	}
	f.add(odd)
	return true
}

func (f *findings) end(found Finding) {
	*f = slices.DeleteFunc(*f, func(o Finding) bool {
		return o.Peer == found.Peer && o.Kind == found.Kind && o.Other == found.Other
	})
}

func (f findings) has(peer slot.PeerID, kind Kind) bool {
	return slices.ContainsFunc(f, func(o Finding) bool { return o.Peer == peer && o.Kind == kind })
}
