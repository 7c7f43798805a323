package report

import (
	"fmt"
	"slices"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/node/round"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership"
	"github.com/p2pdiloco/p2pdiloco/membership/chain"
	"github.com/p2pdiloco/p2pdiloco/p2p"
	"github.com/p2pdiloco/p2pdiloco/spec"
)

// PhaseOf returns the phase of a node that is open, and what it means in plain words, by the newest
// view of the ledger.
func PhaseOf(v membership.View, startPeers uint64) (Phase, string) {
	switch {
	case v.Ending != membership.EndsNot:
		return phaseOfEnding(v)
	case v.Missed:
		return PhaseEndedMissed, "the run is over, and no peer is heard that holds its final model"
	case v.Diverged:
		return PhaseJoining, "the state here differs from the certified one: fetching it anew, not contributing"
	case v.Tip.Height == 0:
		return PhaseSearching, "no record of the run is known yet"
	case !v.IsMember || !v.Synced:
		return PhaseJoining, "fetching the chain and the state, then asking to be a member"
	case v.Paused:
		return PhasePaused, "too few voting members answer; no decision is possible until more are back"
	case v.AppliedSlot == 0 && uint64(len(v.Members)) < startPeers:
		return PhaseWaiting, "the first slot waits for start_peers members"
	}
	return PhaseRunning, ""
}

// phaseOfEnding returns the phase of a node whose chain has ended.
func phaseOfEnding(v membership.View) (Phase, string) {
	switch v.Ending {
	case membership.EndsAsBranch:
		return PhaseEndedBranch, "the last slot is applied, on a branch that is not the run: looking for the others"
	case membership.EndsProvisional:
		return PhaseEndedProvisional, "the last slot is applied, on a branch that may still end for another one"
	case membership.EndsAsRun, membership.EndsNot:
	}
	text := "the last slot is applied and agreed"
	if n := len(v.Serves); n > 0 && !v.Done {
		text += fmt.Sprintf("; serving the model to %d peers that lack it, for %v at most", n, v.Linger)
	}
	return PhaseEnded, text
}

// Members returns the run's members, as the newest view of the ledger has them. paths are the
// connections to those that are connected now.
func Members(s spec.Spec, self slot.PeerID, v membership.View, paths []p2p.Path) (all []MemberStatus) {
	paces, by := newPaces(s, v), make(map[slot.PeerID]*p2p.Path, len(paths))
	for _, p := range paths {
		by[p.Peer] = &p
	}
	for _, m := range v.Members {
		member := paces.addTo(memberStatus(self, v, m))
		member.Path = by[m.Peer]
		all = append(all, member)
	}
	return all
}

func memberStatus(self slot.PeerID, v membership.View, m membership.MemberView) MemberStatus {
	s := MemberStatus{
		Peer: m.Peer, Since: m.Since, Seat: m.Seat, Credit: m.Credit,
		Self: m.Peer == self, Leader: m.Peer == v.Leader, Heard: m.Heard,
		Slot: m.Slot, Steps: m.Steps, Uplink: uint32(m.Uplink.Speed()),
	}
	if c, err := ParseClaims(m.Claims); err == nil && !m.Lost { // those of one that is lost are old
		s.Says = &c
	}
	switch {
	case m.Evicted:
		s.State = "evicted"
	case m.Lost:
		s.State = "missing"
	case m.Fault != "":
		s.State, s.Fault = "mute", m.Fault
	case m.Leaving:
		s.State = "leaving"
	case !m.Contributes && m.Elects():
		s.State = "voting"
	case !m.Contributes:
		s.State = "idle"
	case slices.Contains(v.Offered, m.Peer):
		s.State = "offered"
	case v.Plan != nil || 2*len(v.Offered) > len(v.Members):
		s.State = "late"
	default:
		s.State = "training"
	}
	return s
}

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
