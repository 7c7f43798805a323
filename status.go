package p2pdiloco

import (
	"context"
	"fmt"

	"github.com/p2pdiloco/p2pdiloco/allreduce"
	"github.com/p2pdiloco/p2pdiloco/allreduce/figures"
	"github.com/p2pdiloco/p2pdiloco/internal/node/auditor"
	"github.com/p2pdiloco/p2pdiloco/internal/node/replica"
	"github.com/p2pdiloco/p2pdiloco/internal/node/report"
	"github.com/p2pdiloco/p2pdiloco/internal/node/rules"
	"github.com/p2pdiloco/p2pdiloco/membership/statesync"
	"github.com/p2pdiloco/p2pdiloco/p2p"
)

// What a node reports of itself.
type (
	// Status is what a node knows of its run at one moment.
	Status = report.Status
	// Phase says what a node is doing.
	Phase = report.Phase
	// MemberStatus is one member as a node sees it.
	MemberStatus = report.MemberStatus
	// Claims is what a member says of itself. It may be wrong.
	Claims = report.Claims
	// SlotMetrics is what a node measured from one applied slot to the next.
	SlotMetrics = report.SlotMetrics
	// ContributionStatus is what a record says of the work behind a contribution.
	ContributionStatus = report.ContributionStatus
	// FiguresStatus says what a member contributes, as far as it is published.
	FiguresStatus = report.FiguresStatus
	// Finding says that a member stands out.
	Finding = figures.Finding
	// TaskStatus is a round of inner steps.
	TaskStatus = report.TaskStatus
	// StatsStatus says how the training goes.
	StatsStatus = report.StatsStatus
	// ExchangeStatus is how long the exchange of slots takes.
	ExchangeStatus = report.ExchangeStatus
	// SlotTime is how long one slot was expected to take, and took.
	SlotTime = report.SlotTime
	// SyncStatus is how far the fetch of a state is.
	SyncStatus = replica.FetchStatus
	// DroppedDonor is a peer that a state could not be fetched from.
	DroppedDonor = statesync.Bad
	// ProcessStatus is what the node's process takes.
	ProcessStatus = report.ProcessStatus
	// AgreementStatus says whom the agreement withstands.
	AgreementStatus = report.AgreementStatus
	// AuditStatus says how much of an outcome is checked.
	AuditStatus = auditor.Sampled
	// VoteStatus says how far a peer is on its way to a vote.
	VoteStatus = report.VoteStatus
	// MotionStatus is a motion of some members about which peers may be in the run.
	MotionStatus = report.MotionStatus
)

// The phases of a node.
const (
	PhaseSearching = report.PhaseSearching // no peer of the run has answered yet
	PhaseJoining   = report.PhaseJoining   // fetching chain and state, asking to be a member
	PhaseWaiting   = report.PhaseWaiting   // a member; the first slot waits for start_peers
	PhaseRunning   = report.PhaseRunning
	PhasePaused    = report.PhasePaused // no quorum of the members is heard
	PhaseEnded     = report.PhaseEnded  // the model is the run's; others may still be served
	// it is that of a provisional branch
	PhaseEndedProvisional = report.PhaseEndedProvisional
	// it is that of a branch which is not the run: the others are looked for
	PhaseEndedBranch = report.PhaseEndedBranch
	// the run is over; its final model is not here, and nobody who holds it was found
	PhaseEndedMissed = report.PhaseEndedMissed
	PhaseClosed      = report.PhaseClosed
)

// Status is what this node knows of its run now.
func (n *Node) Status() Status {
	s := Status{
		Run: n.cfg.Spec.Name, Phase: PhaseSearching, Uptime: n.life.Age(), Peer: n.Self(),
		Addrs: n.Addrs(), Process: report.Process(),
	}
	s.Traffic = n.net.Traffic()
	s.Sent, s.Received = s.Traffic.Total()
	s.MaxUpload, s.MaxDownload = n.net.MaxUpload(), n.net.MaxDownload()
	s.Reach = n.net.Reach()
	s.Stats, s.Exchange = report.StatsOf(n.rounds.Stats(), n.replica.Stats()), n.ledger.Exchange()
	v := n.driver.View()
	s.RunID, s.Spec, s.Parameters, s.LastSlot = n.run, n.spec.Fields(), n.spec.Layout.Elements(), n.spec.LastSlot()
	s.Process.Share(n.cfg.Trainer, s.Parameters)
	s.Height, s.Slot, s.StateRoot, s.Ballot, s.Leader = v.Tip.Height, v.AppliedSlot, v.StateRoot, v.Ref.Ballot, v.Leader
	if s.Phase = PhaseClosed; !n.life.Over() {
		s.Phase, s.Detail = report.PhaseOf(v, n.spec.StartPeers)
		if err := n.replica.Fault(); err != nil {
			s.Detail = "it takes no part while its files cannot be used: " + err.Error()
		}
	} else if n.life.Failed() {
		s.Detail = n.life.Err(nil).Error()
	}
	s.Provisional, s.TermsLost = v.Provisional, n.ledger.Lost()
	s.Pin, s.LedgerBytes = v.Lasting, uint64(n.store.Size())
	s.Tip, s.Reason, s.Pinned, s.Private = v.Tip.Hash(), v.Reason, !n.cfg.Pin.IsZero(), n.guard != nil
	if s.Sync = n.replica.Fetching(); s.Sync != nil && s.Sync.Total > 0 && s.Phase != PhaseClosed {
		s.Detail = fmt.Sprintf("fetching the state: %d of %d MB", s.Sync.Bytes/1e6, s.Sync.Total/1e6)
	}
	s.Motions, s.Removed = report.MotionsOf(v), v.Removed
	s.Training, s.Stall = n.rounds.Times()
	if task, ok := n.rounds.Task(); ok {
		s.Task = report.TaskOf(task)
	}
	for _, m := range v.Members {
		if m.Contributes {
			s.Contributors++
		}
	}
	s.Members = report.Members(n.spec, s.Peer, v, n.net.Paths())
	rates := n.replica.Rates()
	for i := range s.Members {
		m := &s.Members[i]
		if m.Rate = rates[m.Peer]; m.Self {
			m.Says = n.claims.Load()
		}
	}
	s.Alarm = report.AddFigures(s.Members, n.replica.Contributed())
	ledger := rules.Ledger(n.spec, n.run)
	s.Agreement, s.Vote = report.AgreementOf(ledger, v.Tip), report.VoteOf(ledger, v.Tip, s.Peer)
	s.Audit = n.replica.Sampled()
	params := n.replica.Params()
	s.Tolerated = allreduce.Tolerated(params.Aggregator, params.TrimPermille, s.Contributors)
	return s
}

// PeerProbe is what a probe of a peer showed, or why it showed nothing.
type PeerProbe struct {
	Peer  PeerID `json:"peer"`
	Error string `json:"error,omitempty"`
	p2p.Probe
}

// maxProbed bounds the members that Node.Probe asks: how fast a link is shows with a few.
const maxProbed = 16

// Probe measures the path to each other member, 16 at most: round trip, clock, and size bytes sent
// there and back (p2p.MaxProbe at most). It asks one after the other, as they share this peer's
// link, and takes that link from slots meanwhile. ctx ends it early, with the results so far.
func (n *Node) Probe(ctx context.Context, size int) []PeerProbe {
	all := []PeerProbe{}
	for _, m := range n.Status().Members {
		if len(all) == maxProbed || ctx.Err() != nil {
			break
		}
		if m.Self {
			continue
		}
		p := PeerProbe{Peer: m.Peer}
		var err error
		if p.Probe, err = n.net.Probe(ctx, m.Peer, size); err != nil {
			p.Error = err.Error()
		}
		all = append(all, p)
	}
	return all
}
