package chain

import (
	"math"
	"slices"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// paceWindow is the number of slots for which a member's newest measured step time counts.
const paceWindow = 16

// These bound what claims can cause. A peer that is faster than the reference does at most maxAhead
// times H steps. The reference is at most maxLead times as fast as the median, if too few speeds
// are known to trim any.
const (
	maxAhead = 4
	maxLead  = 8
)

// PaceRules are the parameters of inner steps by measured speed (DyLU: dynamic local updates, arXiv
// 2401.09135).
type PaceRules struct {
	InnerSteps uint64 // H, of a member that is as fast as the reference
	// of the members whose speed is known, the fastest are left out: a liar's speed is trimmed as
	// its values are
	TrimPermille uint64
}

// steps returns how many of the newest steps say the pace: bases are up to so many slots back.
func (PaceRules) steps(maxStaleness uint64) int { return paceWindow + int(maxStaleness) + 2 }

// Pace holds what the chain says of its members' speeds. It is a pure function of the step records,
// so all peers agree on it and anybody can check it later. It is immutable.
//
// The steps of a round that starts from the anchor of slot b follow from the records of slots below
// b: in an overlapped mode the inner steps begin before slot b is decided.
type Pace struct {
	rules   PaceRules
	records []slot.Record // of steps, the newest last
}

// Steps returns how many inner steps a peer does in a round from the anchor of slot base: at least
// 1.
//
//	H_w = floor(H x t_ref / t_w)
//
// with t its newest step time in the records of the 16 slots below base, and t_ref that of the
// fastest member after as many as are trimmed, but not less than an eighth of the median. Of a peer
// that has none, H/4.
func (p Pace) Steps(peer slot.PeerID, base uint64) uint32 {
	return p.StepsAt(p.times(base)[peer], base)
}

// StepsAt returns the steps of a peer with inner steps of a given duration in microseconds; 0 for
// unknown.
func (p Pace) StepsAt(stepTime uint32, base uint64) uint32 {
	return p.scaled(stepTime, p.reference(base))
}

func (p Pace) scaled(stepTime, reference uint32) uint32 {
	h := p.rules.InnerSteps
	if stepTime == 0 || reference == 0 {
		return uint32(max(1, h/4))
	}
	return uint32(max(1, min(maxAhead*h, math.MaxInt32, h*uint64(reference)/uint64(stepTime))))
}

// All returns the steps of all members at once.
func (p Pace) All(base uint64, members []slot.Member) map[slot.PeerID]uint32 {
	times, reference := p.times(base), p.reference(base)
	all := make(map[slot.PeerID]uint32, len(members))
	for _, m := range members {
		all[m.Peer] = p.scaled(times[m.Peer], reference)
	}
	return all
}

// Newest returns a peer's newest contribution that the records list.
func (p Pace) Newest(peer slot.PeerID) (slot.Offer, bool) {
	for _, r := range slices.Backward(p.records) {
		if i := slices.IndexFunc(r.Contributions, func(o slot.Offer) bool { return o.Peer == peer }); i >= 0 {
			return r.Contributions[i], true
		}
	}
	return slot.Offer{}, false
}

// reference returns the step time that belongs to H; 0 while none is known.
func (p Pace) reference(base uint64) uint32 {
	var members []slot.Member
	for _, r := range p.records {
		if r.Slot < base {
			members = r.Members
		}
	}
	times := p.times(base)
	var known []uint32
	for _, m := range members {
		if t := times[m.Peer]; t > 0 {
			known = append(known, t)
		}
	}
	if len(known) == 0 {
		return 0
	}
	slices.Sort(known)
	return max(known[p.rules.TrimPermille*uint64(len(known))/1000], known[len(known)/2]/maxLead)
}

// times returns the newest step times in the 16 slots below base.
func (p Pace) times(base uint64) map[slot.PeerID]uint32 {
	times := make(map[slot.PeerID]uint32)
	for _, r := range p.records {
		if r.Slot >= base || r.Slot+paceWindow < base {
			continue
		}
		for _, o := range r.Contributions {
			if o.StepTime > 0 {
				times[o.Peer] = o.StepTime
			}
		}
	}
	return times
}
