package p2pdiloco

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/p2pdiloco/p2pdiloco/allreduce"
	"github.com/p2pdiloco/p2pdiloco/membership"
	"github.com/p2pdiloco/p2pdiloco/p2p"
)

// ledgerEvent passes on what happened in the ledger. It is called from the driver's loop and must not block.
func (n *Node) ledgerEvent(e membership.Event) {
	fields := map[string]any{}
	switch e.Kind {
	case membership.EventFounded:
		fields["run"], fields["run_id"] = n.spec.Name, n.run
		n.wg.Go(n.rememberPreset) // Close ends the driver first
	case membership.EventJoined:
		fields["slot"] = e.Slot
		n.wg.Go(n.rememberPreset)
	case membership.EventPlanned:
		fields["slot"], fields["ballot"], fields["members"], fields["leader"] = e.Slot, e.Ballot, e.Members, e.Peer
		fields["schedule"] = cmp.Or(e.Detail, string(allreduce.Rotation))
		n.expect(e, fields)
	case membership.EventCommitted:
		fields["slot"], fields["ballot"], fields["members"] = e.Slot, e.Ballot, e.Members
		fields["contributors"], fields["outcome_root"], fields["height"] = e.Contributors, e.Root, e.Height
		n.tempo.opened(e.Slot + 1)
		n.times.decided(e.Slot)
	case membership.EventDrafted:
		fields["height"], fields["kind"], fields["slot"], fields["ballot"] = e.Height, e.RecordKind.String(), e.Slot, e.Ballot
	case membership.EventProposed, membership.EventCertified:
		fields["height"], fields["kind"], fields["slot"], fields["ballot"] = e.Height, e.RecordKind.String(), e.Slot, e.Ballot
		fields["record"], fields["prev"], fields["certified_root"] = e.Record, e.Prev, e.State
	case membership.EventMembers:
		fields["slot"], fields["height"], fields["members"] = e.Slot, e.Height, e.Members
		n.keepClose(e.Members)
	case membership.EventSuspected, membership.EventLeft, membership.EventEvicted, membership.EventCloned, membership.EventRefused:
		fields["about"], fields["detail"] = e.Peer, e.Detail
		if e.Kind == membership.EventCloned && e.Peer == n.Self() {
			defer n.fail(fmt.Errorf("%w: %s", ErrCloned, e.Detail))
		}
		if e.Kind == membership.EventLeft && e.Peer == n.Self() && e.Detail == membership.DetailRemoved {
			defer n.fail(ErrRemoved)
		}
	case membership.EventOrdered, membership.EventRemoved, membership.EventReadmitted, membership.EventRotated:
		if e.Peer != "" {
			fields["about"] = e.Peer
		}
		fields["height"], fields["detail"] = e.Height, e.Detail
	case membership.EventDiverged:
		fields["slot"], fields["state_root"], fields["certified_root"], fields["detail"] = e.Slot, e.State, e.Root, e.Detail
	case membership.EventForked, membership.EventSwitched:
		fields["slot"], fields["height"], fields["members"] = e.Slot, e.Height, e.Members
		fields["record"], fields["detail"] = e.Root, e.Detail
	case membership.EventPaused, membership.EventResumed, membership.EventDone:
		fields["slot"], fields["detail"] = e.Slot, e.Detail
	}
	n.emit(string(e.Kind), fields)
}

// expect adds to the event of a plan how long the plan should take.
func (n *Node) expect(e membership.Event, fields map[string]any) {
	estimate := n.worker.params.Estimate(*e.Plan, e.Links)
	n.times.planned(e.Slot, estimate)
	if estimate.Takes > 0 {
		fields["expected_seconds"] = estimate.Takes.Seconds()
	}
	if estimate.Relayed > 0 {
		fields["relayed_bytes"] = estimate.Relayed
	}
}

// Status is what this node knows of its run now.
func (n *Node) Status() Status {
	s := Status{Run: n.cfg.Spec.Name, Phase: PhaseSearching, Uptime: time.Since(n.started), Peer: n.Self(), Addrs: n.Addrs(), Process: processStatus()}
	s.Traffic = n.net.Traffic()
	s.Sent, s.Received = s.Traffic.Total()
	s.MaxUpload, s.MaxDownload = n.net.MaxUpload(), n.net.MaxDownload()
	s.Reach = n.net.Reach()
	s.Stats, s.Exchange = n.gauges.stats(), n.times.exchange()
	s.Training, s.Stall = time.Duration(n.training.Load()), time.Duration(n.idle.total.Load())
	if n.driver == nil {
		return s
	}
	v := n.driver.View()
	s.RunID, s.Spec, s.Parameters, s.LastSlot = n.run, n.spec.Fields(), n.spec.Layout.Elements(), n.spec.LastSlot()
	s.Height, s.Slot, s.StateRoot, s.Ballot, s.Leader = v.Tip.Height, v.AppliedSlot, v.StateRoot, v.Ref.Ballot, v.Leader
	s.Phase, s.Detail = n.phase(v)
	s.Tip, s.Reason, s.Pinned, s.Private = v.Tip.Hash(), v.Reason, !n.cfg.Pin.IsZero(), n.doorman != nil
	if s.Sync = n.worker.syncing(); s.Sync != nil && s.Sync.Total > 0 {
		s.Detail = fmt.Sprintf("fetching the state: %d of %d MB", s.Sync.Bytes/1e6, s.Sync.Total/1e6)
	}
	s.Orders, s.Removed = orderStatuses(v), v.Removed
	s.Task = statusOf(n.task.Load())
	paces, paths := n.paces(v), n.paths()
	for _, m := range v.Members {
		if m.Contributes {
			s.Contributors++
		}
		member := paces.tell(n.memberStatus(v, m))
		member.Path = paths[m.Peer]
		s.Members = append(s.Members, member)
	}
	s.Tolerated = allreduce.Tolerated(n.worker.params.Aggregator, n.worker.params.TrimPermille, s.Contributors)
	return s
}

// paths are the ways to the peers connected now.
func (n *Node) paths() map[PeerID]*p2p.Path {
	paths := make(map[PeerID]*p2p.Path)
	for _, p := range n.net.Paths() {
		paths[p.Peer] = &p
	}
	return paths
}

func (n *Node) phase(v membership.View) (Phase, string) {
	switch {
	case n.closed.Err() != nil:
		return PhaseClosed, ""
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
	case v.AppliedSlot == 0 && uint64(len(v.Members)) < n.spec.StartPeers:
		return PhaseWaiting, "the first slot waits for start_peers members"
	}
	return PhaseRunning, ""
}

func (n *Node) memberStatus(v membership.View, m membership.MemberView) MemberStatus {
	s := MemberStatus{
		Peer: m.Peer, Since: m.Since, Self: m.Peer == n.Self(), Leader: m.Peer == v.Leader, Heard: m.Heard, Slot: m.Slot, Steps: m.Steps, Uplink: uint32(m.Uplink.Speed()),
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
