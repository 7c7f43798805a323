package p2pdiloco

import (
	"runtime"
	"runtime/metrics"
	"slices"
	"time"

	"github.com/p2pdiloco/p2pdiloco/p2p"
)

// Status is what a node knows of its run at one moment.
type Status struct {
	Peer         PeerID            `json:"peer"`
	Addrs        []string          `json:"addrs"`
	Run          string            `json:"run"`
	RunID        Root              `json:"run_id"`
	Private      bool              `json:"private,omitempty"` // nobody takes part without a ticket or the secret
	Phase        Phase             `json:"phase"`
	Detail       string            `json:"detail,omitempty"` // the phase in plain words, where they help
	Spec         map[string]string `json:"spec,omitempty"`   // of the run, once known
	Parameters   uint64            `json:"parameters"`       // D
	LastSlot     uint64            `json:"last_slot"`        // the run ends with it
	Height       uint64            `json:"height"`           // of the newest certified record known
	Slot         uint64            `json:"slot"`             // newest outer step applied here
	StateRoot    Root              `json:"state_root"`       // of the state after it
	Tip          Root              `json:"tip"`              // hash of the newest certified record known: what another peer may pin
	Pinned       bool              `json:"pinned"`           // a record of the chain is pinned; else the first peers met were trusted with it
	Reason       string            `json:"reason,omitempty"` // why it is paused or no member yet, in plain words
	Ballot       uint32            `json:"ballot"`           // of the height being decided
	Leader       PeerID            `json:"leader,omitempty"`
	Members      []MemberStatus    `json:"members"`
	Contributors int               `json:"contributors"`      // members that train
	Orders       []OrderStatus     `json:"orders,omitempty"`  // about who may be in the run, given by members and not yet carried out
	Removed      []PeerID          `json:"removed,omitempty"` // peers that may not be members
	Stats        StatsStatus       `json:"stats"`
	Exchange     ExchangeStatus    `json:"exchange"`
	Sync         *SyncStatus       `json:"sync,omitempty"`      // while the state is fetched from others
	Task         *TaskStatus       `json:"task,omitempty"`      // of a peer that trains: its round
	Tolerated    int               `json:"tolerated_bad_peers"` // with these contributors and this aggregator
	Sent         uint64            `json:"bytes_sent"`
	Received     uint64            `json:"bytes_received"`
	Traffic      p2p.Traffic       `json:"traffic"`                // the same, by what for
	MaxUpload    int64             `json:"max_upload,omitempty"`   // bytes a second; 0: no bound
	MaxDownload  int64             `json:"max_download,omitempty"` // the same
	Training     time.Duration     `json:"training_ns"`            // spent in inner steps, since the start
	Stall        time.Duration     `json:"stall_ns"`               // that the trainer stood still and waited for others
	Uptime       time.Duration     `json:"uptime_ns"`
	Reach        p2p.Reach         `json:"reach"` // how others can reach this peer
	Process      ProcessStatus     `json:"process"`
}

// TaskStatus is a round of inner steps, for those who keep their own loop. Which part of the data is whose is in docs/data.md.
type TaskStatus struct {
	Slot    uint64   `json:"slot"`        // that this round contributes to, from 1
	Steps   int      `json:"inner_steps"` // H; in mode streaming those to the next border: begin
	Delay   int      `json:"delay"`       // in mode streaming: inner steps between begin and finish; else 0
	Seed    uint64   `json:"seed"`        // of the run
	Rank    int      `json:"rank"`        // this peer is Members[Rank]
	Members []PeerID `json:"members"`     // at this slot's border, sorted

	Part      uint64 `json:"part"`       // of the data, from 0: this peer's alone
	PartSteps int    `json:"part_steps"` // inner steps that a part has data for
	Done      uint64 `json:"part_done"`  // of them, trained before this round
}

func statusOf(t *Task) *TaskStatus {
	if t == nil {
		return nil
	}
	return &TaskStatus{
		Slot: t.Slot, Steps: t.Steps, Delay: t.Delay, Seed: t.Seed, Rank: slices.Index(t.Members, t.Self), Members: t.Members,
		Part: t.Part, PartSteps: t.PartSteps, Done: t.Done,
	}
}

// ProcessStatus is what the node's process takes: it must not grow with the slots.
type ProcessStatus struct {
	Goroutines int    `json:"goroutines"`
	HeapBytes  uint64 `json:"heap_bytes"` // live and not yet collected objects
}

func processStatus() ProcessStatus {
	heap := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(heap)
	return ProcessStatus{Goroutines: runtime.NumGoroutine(), HeapBytes: heap[0].Value.Uint64()}
}

// SyncStatus is how far the fetch of a state is.
type SyncStatus struct {
	Bytes   int64          `json:"bytes"` // of the state that are here, verified
	Total   int64          `json:"total"` // 0 until it is known who holds one
	Dropped []DroppedDonor `json:"dropped,omitempty"`
}

// DroppedDonor is a peer that died, stalled or sent wrong bytes while a state was fetched from it.
type DroppedDonor struct {
	Peer   PeerID `json:"peer"`
	Reason string `json:"reason"`
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
	PhaseEnded     Phase = "ended"
	PhaseClosed    Phase = "closed"
)

// MemberStatus is one member as this node sees it.
type MemberStatus struct {
	Peer   PeerID        `json:"peer"`
	Since  uint64        `json:"since"` // height
	Self   bool          `json:"self,omitempty"`
	Leader bool          `json:"leader,omitempty"`
	State  string        `json:"state"`            // training | offered | late | missing | evicted | leaving | voting (a member without a trainer)
	Heard  time.Duration `json:"heard_ns"`         // ago
	Slot   uint64        `json:"slot"`             // newest it says it has applied
	Steps  uint32        `json:"steps"`            // inner steps done in its current round
	Path   *p2p.Path     `json:"path,omitempty"`   // how it is reached from here; nil: not now
	Uplink uint32        `json:"uplink,omitempty"` // kB/s that it measured when it sent to others, to a quarter of a doubling; 0 for unknown

	Assigned     uint32              `json:"assigned_steps,omitempty"` // inner steps of a round that it begins now, by the run's pace; 0 where that is its own choice
	Contribution *ContributionStatus `json:"contribution,omitempty"`   // its newest in a record
}

// ContributionStatus is what a record says of the work behind a contribution, and what the records before asked for.
type ContributionStatus struct {
	Slot      uint64        `json:"slot"`
	Staleness uint64        `json:"staleness"`                // in slots
	Steps     uint32        `json:"steps"`                    // inner steps, as the peer says; 0 for unknown
	StepTime  time.Duration `json:"step_ns"`                  // of one, as the peer measured it; 0 for unknown
	Assigned  uint32        `json:"assigned_steps,omitempty"` // by the run's pace
}
