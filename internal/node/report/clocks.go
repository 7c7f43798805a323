package report

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/p2p"
)

// ClockStatus says whose clock is wrong, as far as this peer can tell. Nothing in a run is decided
// by it.
type ClockStatus struct {
	// this machine's clock against the others'; greater than 0: it is ahead. 0: it agrees with
	// about half of them, or more
	Off time.Duration `json:"off_ns,omitempty"`
	// the peers whose clocks are off, against the same, sorted
	Peers  []ClockOff `json:"peers,omitempty"`
	Detail string     `json:"detail"` // in words, with what to do
}

// ClockOff is one clock that is wrong.
type ClockOff struct {
	Peer slot.PeerID   `json:"peer"`
	Off  time.Duration `json:"off_ns"` // greater than 0: it is ahead
}

// maxClocksNamed bounds the peers that a text names.
const maxClocksNamed = 4

// ClocksOf compares the clocks of others, by how far each is ahead of this machine's. It is nil
// where all are within p2p.MaxSkew of each other's median.
func ClocksOf(offsets map[slot.PeerID]time.Duration) *ClockStatus {
	right := median(offsets)
	s := &ClockStatus{}
	if right.Abs() > p2p.MaxSkew {
		s.Off = -right
	}
	for p, offset := range offsets {
		if off := offset - right; off.Abs() > p2p.MaxSkew {
			s.Peers = append(s.Peers, ClockOff{p, off})
		}
	}
	if s.Off == 0 && len(s.Peers) == 0 {
		return nil
	}
	slices.SortFunc(s.Peers, func(a, b ClockOff) int { return strings.Compare(string(a.Peer), string(b.Peer)) })
	s.Detail = s.text(len(offsets))
	return s
}

// median is the median of the others' clocks and this machine's, against the latter. Of two in the
// middle it is the one nearer to this machine's.
func median(offsets map[slot.PeerID]time.Duration) time.Duration {
	all := []time.Duration{0}
	for _, offset := range offsets {
		all = append(all, offset)
	}
	slices.Sort(all)
	low, high := all[(len(all)-1)/2], all[len(all)/2]
	if low.Abs() < high.Abs() {
		return low
	}
	return high
}

// text says what is wrong, what that means and what to do. others is the number of clocks compared.
func (s *ClockStatus) text(others int) string {
	const setIt = "turn on network time where the clock is wrong (NTP; on Linux: timedatectl set-ntp true)"
	const means = "training goes on, but logs are hard to compare, and tickets expire early or late"
	var parts []string
	if s.Off != 0 {
		parts = append(parts, fmt.Sprintf("this machine's clock is %s those of most of the %d peers that told theirs",
			aheadOf(s.Off), others))
	}
	for i, p := range s.Peers {
		if i == maxClocksNamed {
			parts = append(parts, fmt.Sprintf("and %d more are off", len(s.Peers)-i))
			break
		}
		against := "the others'"
		if others == 1 {
			against = "this machine's, and one of the two is wrong"
		}
		parts = append(parts, fmt.Sprintf("the clock of peer %s is %s %s", p.Peer.Short(), aheadOf(p.Off), against))
	}
	return strings.Join(parts, "; ") + ": " + means + "; " + setIt
}

func aheadOf(off time.Duration) string {
	by := off.Abs().Round(time.Second).String()
	if off > 0 {
		return by + " ahead of"
	}
	return by + " behind"
}

// SameClocks says whether two states name the same clocks as wrong, to the same side.
func SameClocks(a, b *ClockStatus) bool {
	if a == nil || b == nil {
		return a == b
	}
	return (a.Off > 0) == (b.Off > 0) && (a.Off < 0) == (b.Off < 0) &&
		slices.EqualFunc(a.Peers, b.Peers, func(x, y ClockOff) bool {
			return x.Peer == y.Peer && (x.Off > 0) == (y.Off > 0)
		})
}
