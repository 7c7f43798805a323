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
	Peer  slot.PeerID
	Kind  Kind
	Words string
	Since uint64 // slot
	// Other is the member that it is like, if it is like one.
	Other slot.PeerID
	noted uint64 // the newest slot that gave it, of what was noted; else 0
}

// Change is a finding that begins or ends.
type Change struct {
	Finding
	Slot   uint64
	Begins bool
}

// compare is the order in which findings are listed.
func (f Finding) compare(o Finding) int {
	return cmp.Or(cmp.Compare(f.Peer, o.Peer), cmp.Compare(f.Kind, o.Kind), cmp.Compare(f.Other, o.Other))
}

// set takes in whether a finding holds, and appends what that changes.
func (t *Tracker) set(changes []Change, slotNumber uint64, f Finding, holds bool) []Change {
	i, held := slices.BinarySearchFunc(t.found, f, Finding.compare)
	switch {
	case holds && held:
		f.Since = t.found[i].Since
		t.found[i] = f
		return changes
	case holds:
		f.Since = slotNumber
		t.found = slices.Insert(t.found, i, f)
	case held:
		f = t.found[i]
		t.found = slices.Delete(t.found, i, i+1)
	default:
		return changes
	}
	return append(changes, Change{f, slotNumber, holds})
}

// has says whether a finding of a kind holds about a peer.
func (t *Tracker) has(peer slot.PeerID, kind Kind) bool {
	return slices.ContainsFunc(t.found, func(o Finding) bool { return o.Peer == peer && o.Kind == kind })
}
