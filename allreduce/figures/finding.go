package figures

import (
	"slices"
	"strings"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// Kind is what a finding says. The enumeration only grows.
type Kind string

// The kinds of findings.
const (
	Opposite    Kind = "opposite"     // it points the other way than the others
	Zeros       Kind = "zeros"        // it sends about nothing
	OldNews     Kind = "old_news"     // it sends the outcome before
	TooLarge    Kind = "too_large"    // it sends far longer vectors than the others
	Unpublished Kind = "unpublished"  // as an owner it does not publish who contributed what
	OwnOpposite Kind = "own_opposite" // an alarm about this peer itself
)

var words = map[Kind]string{
	Opposite:    "sends about the opposite of what the others send",
	Zeros:       "sends nothing new: its values are below a thousandth of what the others send",
	OldNews:     "sends nothing new: its values are about those of the outcome before",
	TooLarge:    "sends values far larger than those of the others",
	Unpublished: "does not publish who contributed what to the parts that it reduces",
	OwnOpposite: "what this peer sends is about the opposite of what the others send: probably its data, the sign of " +
		"its loss or its optimizer is wrong (of two or three peers it may be another's); stop this peer and " +
		"compare its trainer with another one's",
}

// Words are a kind in plain words, of which the subject is the peer.
func (k Kind) Words() string { return words[k] }

// Finding says that a member stands out.
type Finding struct {
	Peer  slot.PeerID `json:"peer"`
	Kind  Kind        `json:"kind"`
	Words string      `json:"words"`
	Since uint64      `json:"since"` // slot
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
		found := Finding{peer, kind, kind.Words(), slotNumber}
		*f = append(*f, found)
		slices.SortFunc(*f, func(a, b Finding) int {
			return strings.Compare(string(a.Peer)+string(a.Kind), string(b.Peer)+string(b.Kind))
		})
		return Change{found, slotNumber, true}, true
	default:
		found := (*f)[i]
		*f = slices.Delete(*f, i, i+1)
		return Change{found, slotNumber, false}, true
	}
}

func (f findings) has(peer slot.PeerID, kind Kind) bool {
	return slices.ContainsFunc(f, func(o Finding) bool { return o.Peer == peer && o.Kind == kind })
}
