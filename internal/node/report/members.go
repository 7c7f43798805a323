package report

import (
	"slices"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership"
	"github.com/p2pdiloco/p2pdiloco/p2p"
	"github.com/p2pdiloco/p2pdiloco/spec"
)

// PhaseOf returns the phase of a node that is open, and what it means in plain words, by the newest
// view of the ledger.
func PhaseOf(v membership.View, startPeers uint64) (Phase, string) {
	switch {
	case v.Done:
		return PhaseEnded, "the last slot is applied and agreed"
	case v.Missed:
		return PhaseEnded, "the run is over, and no peer is heard that holds its final model"
	case v.Diverged:
		return PhaseJoining, "the state here differs from the certified one: fetching it anew, not contributing"
	case v.Tip.Height == 0:
		return PhaseSearching, "no record of the run is known yet"
	case !v.IsMember || !v.Synced:
		return PhaseJoining, "fetching the chain and the state, then asking to be a member"
	case v.Paused:
		return PhasePaused, "too few members are heard to decide anything: waiting for them"
	case v.AppliedSlot == 0 && uint64(len(v.Members)) < startPeers:
		return PhaseWaiting, "the first slot waits for start_peers members"
	}
	return PhaseRunning, ""
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
		Peer: m.Peer, Since: m.Since, Self: m.Peer == self, Leader: m.Peer == v.Leader, Heard: m.Heard,
		Slot: m.Slot, Steps: m.Steps, Uplink: uint32(m.Uplink.Speed()),
	}
	switch {
	case m.Evicted:
		s.State = "evicted"
	case m.Lost:
		s.State = "missing"
	case m.Leaving:
		s.State = "leaving"
	case !m.Contributes:
		s.State = "voting"
	case slices.Contains(v.Offered, m.Peer):
		s.State = "offered"
	case v.Plan != nil || 2*len(v.Offered) > len(v.Members):
		s.State = "late"
	default:
		s.State = "training"
	}
	return s
}
