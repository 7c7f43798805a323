package p2pdiloco

import (
	"context"
	"fmt"
	"runtime"
	"runtime/metrics"
	"slices"
	"time"

	"github.com/p2pdiloco/p2pdiloco/allreduce"
	"github.com/p2pdiloco/p2pdiloco/internal/node/replica"
	"github.com/p2pdiloco/p2pdiloco/internal/node/round"
	"github.com/p2pdiloco/p2pdiloco/membership"
	"github.com/p2pdiloco/p2pdiloco/p2p"
	"github.com/p2pdiloco/p2pdiloco/trainer"
)

// Finding says that a member stands out.
type Finding struct {
	Peer PeerID `json:"peer"`
	// opposite | zeros | too_large | same_bytes | sent_again | capped
	Kind  string `json:"kind"`
	Words string `json:"words"` // of which the subject is the peer
	Since uint64 `json:"since"` // slot
	// the member that it is like, if it is like one
	Other PeerID `json:"other,omitempty"`
}

// SyncStatus is how far the fetch of a state is.
type SyncStatus struct {
	Bytes   int64          `json:"bytes"`             // of the state that are here, verified
	Total   int64          `json:"total"`             // 0 until a donor of a state is known
	Dropped []DroppedDonor `json:"dropped,omitempty"` // they died, stalled or sent wrong bytes
}

// DroppedDonor is a peer that a state could not be fetched from.
type DroppedDonor struct {
	Peer   PeerID `json:"peer"`
	Reason string `json:"reason"` // plain words
}

// AuditStatus says how much of an outcome its electors check before they agree to it.
type AuditStatus struct {
	Slot uint64 `json:"slot"`
	// that a quorum of them takes of each segment, or, where their number differs, of the segment
	// with the fewest
	Samples int `json:"samples"`
	Of      int `json:"of"` // that the run asks for; 0: everything
	// each elector checks all of each segment
	Whole bool   `json:"whole,omitempty"`
	Why   string `json:"why,omitempty"` // there are fewer than the run asks for, in words
}

// Status is what this node knows of its run now.
func (n *Node) Status() Status {
	s := Status{
		Run: n.cfg.Spec.Name, Phase: PhaseSearching, Uptime: n.life.Age(), Peer: n.Self(),
		Addrs: n.Addrs(), Process: processStatus(),
	}
	s.Traffic = n.net.Traffic()
	s.Sent, s.Received = s.Traffic.Total()
	s.MaxUpload, s.MaxDownload = n.net.MaxUpload(), n.net.MaxDownload()
	s.Reach = n.net.Reach()
	s.Stats = statsOf(n.rounds.Stats(), n.replica.Stats())
	s.Exchange = n.ledger.seen()
	v := n.driver.View()
	s.RunID, s.Spec, s.Parameters, s.LastSlot = n.run, n.spec.Fields(), n.spec.Layout.Elements(), n.spec.LastSlot()
	s.Process.share(n.cfg.Trainer, s.Parameters)
	s.Height, s.Slot, s.StateRoot, s.Ballot, s.Leader = v.Tip.Height, v.AppliedSlot, v.StateRoot, v.Ref.Ballot, v.Leader
	if s.Phase = PhaseClosed; !n.life.Over() {
		s.Phase, s.Detail = phaseOf(v, n.spec.StartPeers)
		if err := n.replica.Fault(); err != nil {
			s.Detail = "it takes no part while its files cannot be used: " + err.Error()
		}
	} else if n.life.Failed() {
		s.Detail = n.life.Err(nil).Error()
	}
	s.Provisional, s.Pin, s.LedgerBytes = v.Provisional, v.Lasting, uint64(n.store.Size())
	s.Tip, s.Reason, s.Pinned, s.Private = v.Tip.Hash(), v.Reason, !n.cfg.Pin.IsZero(), n.guard != nil
	if s.Sync = n.fetching(); s.Sync != nil && s.Sync.Total > 0 && s.Phase != PhaseClosed {
		s.Detail = fmt.Sprintf("fetching the state: %d of %d MB", s.Sync.Bytes/1e6, s.Sync.Total/1e6)
	}
	s.Motions, s.Removed = motionsOf(v), v.Removed
	s.Training, s.Stall = n.rounds.Times()
	if task, ok := n.rounds.Task(); ok {
		s.Task = taskOf(task)
	}
	for _, m := range v.Members {
		if m.Contributes {
			s.Contributors++
		}
	}
	s.Members = membersOf(n.spec, s.Peer, v, n.net.Paths())
	rates := n.replica.Rates()
	for i := range s.Members {
		m := &s.Members[i]
		if m.Rate = rates[m.Peer]; m.Self {
			m.Says = n.claims.Load()
		}
	}
	s.Alarm = addFigures(s.Members, n.replica.Contributed())
	ledger := ledgerRules(n.spec, n.run)
	s.Agreement, s.Vote = agreementOf(ledger, v.Tip), voteOf(ledger, v.Tip, s.Peer)
	s.Audit = (*AuditStatus)(n.auditor.Sampled())
	params := n.replica.Params()
	s.Tolerated = allreduce.Tolerated(params.Aggregator, params.TrimPermille, s.Contributors)
	return s
}

// fetching is how far the fetch of a state is; nil: none is fetched.
func (n *Node) fetching() *SyncStatus {
	f := n.replica.Fetching()
	if f == nil {
		return nil
	}
	s := &SyncStatus{Bytes: f.Bytes, Total: f.Total}
	for _, d := range f.Dropped {
		s.Dropped = append(s.Dropped, DroppedDonor{d.Peer, d.Reason})
	}
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

// Status is what a node knows of its run at one moment.
type Status struct {
	Peer  PeerID   `json:"peer"`
	Addrs []string `json:"addrs"`
	Run   string   `json:"run"`
	RunID Root     `json:"run_id"`
	// nobody takes part without a ticket or the secret
	Private bool  `json:"private,omitempty"`
	Phase   Phase `json:"phase"`
	// the phase in plain words, where they help
	Detail     string            `json:"detail,omitempty"`
	Spec       map[string]string `json:"spec,omitempty"` // of the run, once known
	Parameters uint64            `json:"parameters"`     // D
	LastSlot   uint64            `json:"last_slot"`      // the run ends with it
	Height     uint64            `json:"height"`         // of the newest certified record known
	Slot       uint64            `json:"slot"`           // newest outer step applied here
	StateRoot  Root              `json:"state_root"`     // of the state after it
	// hash of the newest certified record known
	Tip Root `json:"tip"`
	// of the newest one that changed who votes: what another peer may pin
	Pin Root `json:"pin"`
	// bytes of all records and of what this peer has voted, on disk
	LedgerBytes uint64 `json:"ledger_bytes"`
	// a record of the chain is pinned; else the first peers met were trusted with it
	Pinned bool `json:"pinned"`
	// why it is paused or no member yet, in plain words
	Reason string `json:"reason,omitempty"`
	// why this branch of the run may still end for another one, in plain words
	Provisional string `json:"provisional,omitempty"`
	// what is wrong with what this peer contributes, and what to do, in plain words
	Alarm string `json:"alarm,omitempty"`
	// how far the processes of a trainer that attaches are, in plain words
	Trainer      string         `json:"trainer,omitempty"`
	Ballot       uint32         `json:"ballot"` // of the height being decided
	Leader       PeerID         `json:"leader,omitempty"`
	Members      []MemberStatus `json:"members"`
	Contributors int            `json:"contributors"` // members that train
	// motions of members about the peers that may be in the run, not yet decided
	Motions  []MotionStatus `json:"orders,omitempty"`
	Removed  []PeerID       `json:"removed,omitempty"` // peers that may not be members
	Stats    StatsStatus    `json:"stats"`
	Exchange ExchangeStatus `json:"exchange"`
	// while the state is fetched from others
	Sync *SyncStatus `json:"sync,omitempty"`
	Task *TaskStatus `json:"task,omitempty"` // of a peer that trains: its round
	// whom the agreement withstands at the run's present size; nil while there is no member
	Agreement *AgreementStatus `json:"agreement,omitempty"`
	// how much of the newest outcome its electors check; nil: this peer has checked nothing
	Audit *AuditStatus `json:"audit,omitempty"`
	// how far this peer is on its way to a vote; nil if it has one, or votes are not earned
	Vote *VoteStatus `json:"vote,omitempty"`
	// with these contributors and this aggregator
	Tolerated   int         `json:"tolerated_bad_peers"`
	Sent        uint64      `json:"bytes_sent"`
	Received    uint64      `json:"bytes_received"`
	Traffic     p2p.Traffic `json:"traffic"`                // the same, by what for
	MaxUpload   int64       `json:"max_upload,omitempty"`   // bytes a second; 0: no bound
	MaxDownload int64       `json:"max_download,omitempty"` // the same
	// spent in inner steps, since the start
	Training time.Duration `json:"training_ns"`
	// that the trainer stood still and waited for others
	Stall   time.Duration `json:"stall_ns"`
	Uptime  time.Duration `json:"uptime_ns"`
	Reach   p2p.Reach     `json:"reach"` // how others can reach this peer
	Process ProcessStatus `json:"process"`
}

// TaskStatus is a round of inner steps, for programs that keep their own loop. docs/how-to/data.md
// says how the parts of the data are assigned.
type TaskStatus struct {
	Slot  uint64 `json:"slot"`        // that this round contributes to, from 1
	Steps int    `json:"inner_steps"` // H; in mode streaming those to the next border: begin
	// in mode streaming: inner steps between begin and finish; else 0
	Delay   int      `json:"delay"`
	Seed    uint64   `json:"seed"`    // of the run
	Rank    int      `json:"rank"`    // this peer is Members[Rank]
	Members []PeerID `json:"members"` // at this slot's border, sorted

	Part      uint64 `json:"part"`       // of the data, from 0: this peer's alone
	PartSteps int    `json:"part_steps"` // inner steps that a part has data for
	Done      uint64 `json:"part_done"`  // of them, trained before this round
}

// taskOf returns a task as a status shows it.
func taskOf(t Task) *TaskStatus {
	return &TaskStatus{
		Slot: t.Slot, Steps: t.Steps, Delay: t.Delay, Seed: t.Seed, Rank: slices.Index(t.Members, t.Self),
		Members: t.Members,
		Part:    t.Part, PartSteps: t.PartSteps, Done: t.Done,
	}
}

// ProcessStatus is what the node's process takes: it must not grow with the slots.
type ProcessStatus struct {
	Goroutines int    `json:"goroutines"`
	HeapBytes  uint64 `json:"heap_bytes"` // live and not yet collected objects
	// shared with a trainer's processes, once for all of them; it is not on the heap
	SharedBytes uint64 `json:"shared_bytes,omitempty"`
	// the same as vectors of the model in float32
	SharedVectors float64 `json:"shared_vectors,omitempty"`
}

// processStatus returns what this process uses.
func processStatus() ProcessStatus {
	heap := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(heap)
	return ProcessStatus{Goroutines: runtime.NumGoroutine(), HeapBytes: heap[0].Value.Uint64()}
}

// share adds the memory that is shared with a trainer's processes, for a model of d parameters, and
// at least one.
func (s *ProcessStatus) share(t Trainer, d uint64) {
	if m, ok := t.(trainer.MemorySharer); ok {
		s.SharedBytes = m.SharedBytes()
		s.SharedVectors = float64(s.SharedBytes) / float64(4*d)
	}
}

// Phase says what a node is about.
type Phase string

// The phases of a node.
const (
	PhaseSearching Phase = "searching" // no peer of the run has answered yet
	PhaseJoining   Phase = "joining"   // fetching the chain and the state, asking to be a member
	PhaseWaiting   Phase = "waiting"   // a member; the first slot waits for start_peers
	PhaseRunning   Phase = "running"
	PhasePaused    Phase = "paused" // no quorum of the members is heard
	PhaseEnded     Phase = "ended"  // the model is the run's; others may still be served
	// it is that of a provisional branch
	PhaseEndedProvisional Phase = "ended_provisional"
	// the run is over; its final model is not here, and nobody who holds it was found
	PhaseEndedMissed Phase = "ended_missed"
	PhaseClosed      Phase = "closed"
)

// MemberStatus is one member as this node sees it.
type MemberStatus struct {
	Peer  PeerID `json:"peer"`
	Since uint64 `json:"since"` // height
	Seat  uint64 `json:"seat"`  // height since which it votes; 0: it has no vote
	// of its contributions, where votes are earned: 32 are enough for one from four electors on
	Credit uint16 `json:"credit,omitempty"`
	Self   bool   `json:"self,omitempty"`
	Leader bool   `json:"leader,omitempty"`
	// training | offered | late | missing | mute | evicted | leaving | voting (a member without a
	// trainer) | idle (one without a vote, too)
	State string `json:"state"`
	Fault string `json:"fault,omitempty"` // what a mute member fails to do, in words
	// at the newest 64 heights: it led them, and its clock ended, or it resigned
	TermsLost int           `json:"terms_lost,omitempty"`
	Heard     time.Duration `json:"heard_ns"`       // ago
	Slot      uint64        `json:"slot"`           // newest it says it has applied
	Steps     uint32        `json:"steps"`          // inner steps done in its current round
	Path      *p2p.Path     `json:"path,omitempty"` // how it is reached from here; nil: not now
	// kB/s that it measured when it sent to others, to a quarter of a doubling; 0 for unknown
	Uplink uint32 `json:"uplink,omitempty"`
	// kB/s at which this peer could send to it in its newest reductions; 0 for unknown
	Rate uint32 `json:"rate,omitempty"`

	// inner steps of a round that it begins now, by the run's pace
	Assigned     uint32              `json:"assigned_steps,omitempty"`
	Contribution *ContributionStatus `json:"contribution,omitempty"` // its newest in a record

	// of what it contributes; nil: unknown
	Figures *FiguresStatus `json:"figures,omitempty"`
	// what stands out in what it contributes, or publishes as an owner
	StandsOut []Finding `json:"stands_out,omitempty"`
	// what it says of itself, which may be wrong; nil: nothing
	Says *Claims `json:"says,omitempty"`
}

// ContributionStatus is what a record says of the work behind a contribution, and what the records
// before asked for.
type ContributionStatus struct {
	Slot      uint64 `json:"slot"`
	Staleness uint64 `json:"staleness"` // in slots
	// inner steps, as the peer says; 0 for unknown
	Steps uint32 `json:"steps"`
	// of one, as the peer measured it; 0 for unknown
	StepTime time.Duration `json:"step_ns"`
	Assigned uint32        `json:"assigned_steps,omitempty"` // by the run's pace
}

// MotionStatus is a change of membership that some members want.
type MotionStatus struct {
	Action string   `json:"action"` // remove | readmit | rotate
	Peer   PeerID   `json:"peer,omitempty"`
	By     []PeerID `json:"by"`     // members
	Enough bool     `json:"enough"` // a quorum: it waits for its record
}

// motionsOf are the motions that members have made and that are not decided.
func motionsOf(v membership.View) (out []MotionStatus) {
	for _, o := range v.Motions {
		out = append(out, MotionStatus{Action: o.Action.String(), Peer: o.Peer, By: o.By, Enough: o.Enough})
	}
	return out
}

// StatsStatus says how the training goes, as this peer sees it: of the newest slot that was applied
// here, and of its own trainer. It is for people: nothing is decided by it. What is not known is
// nil.
type StatsStatus struct {
	// the newest applied; 0: none since this process started
	Slot         uint64  `json:"slot"`
	Contributors int     `json:"contributors"`  // that its record lists
	Weight       uint64  `json:"weight"`        // of all contributions: tokens or samples
	Staleness    float64 `json:"staleness"`     // mean over the contributions, in slots
	MaxStaleness uint64  `json:"max_staleness"` // in slots

	// Norm is the Euclidean norm of the aggregated pseudo-gradient, OwnNorm that of this peer's,
	// Cosine that of the angle between the two. Above 4 Mi elements they are estimates from
	// so many of them. PairCosine is the mean cosine over all pairs of contributions, on a few
	// frames of the part that this peer reduced.
	Norm       float64  `json:"norm"`
	OwnNorm    *float64 `json:"own_norm,omitempty"`
	Cosine     *float64 `json:"cosine,omitempty"`
	PairCosine *float64 `json:"pair_cosine,omitempty"`

	// held-out, of the newest anchor that was measured
	Loss      *float64 `json:"loss,omitempty"`
	LossSlot  uint64   `json:"loss_slot,omitempty"`  // which one that is
	TrainLoss *float64 `json:"train_loss,omitempty"` // mean over the newest round's inner steps

	Applied uint64 `json:"applied"` // slots since this process started
	// those of them that list a contribution of this peer
	Contributions uint64 `json:"contributions"`
	// or samples, behind this peer's pseudo-gradients since this process started
	Tokens uint64 `json:"tokens"`
}

// statsOf puts together what the rounds and the replica have measured.
func statsOf(own round.Stats, got replica.Stats) (s StatsStatus) {
	s.Loss, s.LossSlot, s.TrainLoss, s.Tokens = own.Loss, own.LossSlot, own.TrainLoss, own.Tokens
	newest := got.Newest
	s.Slot, s.Contributors, s.Weight = newest.Slot, newest.Contributors, newest.Weight
	s.Staleness, s.MaxStaleness = newest.Staleness, newest.MaxStaleness
	s.Norm, s.OwnNorm, s.Cosine, s.PairCosine = newest.Norm, newest.OwnNorm, newest.Cosine, newest.PairCosine
	s.Applied, s.Contributions = got.Applied, got.Contributions
	return s
}
