package report

import (
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/node/round"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership"
	"github.com/p2pdiloco/p2pdiloco/membership/chain"
	"github.com/p2pdiloco/p2pdiloco/spec"
)

// paces is what a status says of the members' inner steps.
type paces struct {
	spec spec.Spec
	pace chain.Pace
	of   []slot.Member
	base uint64 // of a round that begins now
	// steps, by base: they cost too much to be found for each member anew
	dylu map[uint64]map[slot.PeerID]uint32
}

func newPaces(s spec.Spec, v membership.View) paces {
	return paces{s, v.Pace, v.Tip.Members, v.Tip.Slot + round.ModeOf(s).Lead(), make(map[uint64]map[slot.PeerID]uint32)}
}

// assigned returns how many inner steps a member has in a round from the anchor of slot base; 0 if
// that is its own choice.
func (p paces) assigned(peer slot.PeerID, base uint64) uint32 {
	switch p.spec.Pace {
	case spec.PaceSteps:
		return uint32(p.spec.Interval(base + 1))
	case spec.PaceDyLU:
		if p.dylu[base] == nil {
			p.dylu[base] = p.pace.All(base, p.of)
		}
		return p.dylu[base][peer]
	}
	return 0
}

// addTo adds to what a status says of a member.
func (p paces) addTo(s MemberStatus) MemberStatus {
	s.Assigned = p.assigned(s.Peer, p.base)
	if o, ok := p.pace.Newest(s.Peer); ok {
		s.Contribution = &ContributionStatus{
			Slot: o.Slot, Staleness: o.Slot - 1 - o.Base, Steps: o.Steps,
			StepTime: time.Duration(o.StepTime) * time.Microsecond,
			Assigned: p.assigned(s.Peer, o.Base),
		}
	}
	return s
}
