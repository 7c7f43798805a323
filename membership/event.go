package membership

import "github.com/p2pdiloco/p2pdiloco/internal/slot"

// Event is what happened, for logs, status and event files. It binds nobody.
type Event struct {
	Kind         EventKind
	Height       uint64
	Slot         uint64
	Ballot       uint32
	Peer         slot.PeerID // that the event is about
	Members      []slot.PeerID
	Contributors []slot.PeerID
	// outcome of a commit, record that another branch begins with, last state of the run, or
	// certified state where a peer differs
	Root slot.Root
	// where a peer differs: the root of the state that it holds; of a certified record: the state
	// before it
	State      slot.Root
	Record     slot.Root // hash of the record that was proposed or certified, or lists the members
	Prev       slot.Root // of the record before it
	RecordKind slot.Kind
	Electors   int    // that decide after the record
	Ending     Ending // of EventFinal and EventDone: what the last state is
	Reason     Reason // of EventSuspected, EventLeft and EventRefused
	Until      uint64 // the last slot that plans of this peer leave the other one out of
	Detail     string // plain words; empty where the reason is enough

	Plan  *slot.Plan // of EventPlanned
	Links slot.Links // what the plan's peers say of the ways between them
}

// Reason says in a word, for programs, why a peer is suspected, gone or refused.
type Reason string

// All reasons. docs/reference/events.md says what they mean.
const (
	ReasonLeft          Reason = "left"
	ReasonLost          Reason = "lost"
	ReasonRemoved       Reason = "removed"
	ReasonMute          Reason = "mute"
	ReasonNoRecord      Reason = "no_record"
	ReasonUnshown       Reason = "unshown"
	ReasonFailed        Reason = "failed"
	ReasonBadBytes      Reason = "bad_bytes"
	ReasonManyNewcomers Reason = "many_newcomers"
	ReasonLargeProof    Reason = "large_proof"
	ReasonPlan          Reason = "plan"
	ReasonDraft         Reason = "draft"
	ReasonProposal      Reason = "proposal"
	ReasonPromise       Reason = "promise"
	ReasonFalseProof    Reason = "false_proof"
	ReasonBadChain      Reason = "bad_chain"
	ReasonUnshownChain  Reason = "unshown_chain"
	ReasonUnshownState  Reason = "unshown_state"
	ReasonOldBranch     Reason = "old_branch"
	ReasonFewBranch     Reason = "few_branch"
	ReasonUnknownOffers Reason = "unknown_offers"
	ReasonNoPin         Reason = "no_pin"
)

// EventKind names an event.
type EventKind string

// The ledger's events.
const (
	EventFounded   EventKind = "run.founded"
	EventJoined    EventKind = "run.joined"
	EventPlanned   EventKind = "slot.planned"
	EventShort     EventKind = "slot.waits" // it needs members that take no part
	EventDrafted   EventKind = "record.drafted"
	EventProposed  EventKind = "record.proposed"
	EventCertified EventKind = "record.certified"
	EventCommitted EventKind = "slot.committed"
	EventMembers   EventKind = "members.changed"
	EventSuspected EventKind = "peer.suspected"
	EventLeft      EventKind = "peer.left"
	EventRefused   EventKind = "peer.refused"
	EventObjected  EventKind = "peer.objected" // this peer gives its draft no HAVE for now
	EventResigned  EventKind = "peer.resigned" // this leader has ended its own term
	EventEvicted   EventKind = "peer.evicted"
	EventCloned    EventKind = "peer.cloned"
	EventPaused    EventKind = "run.paused"
	EventResumed   EventKind = "run.resumed"
	EventDiverged  EventKind = "state.diverged"
	EventForked    EventKind = "run.forked"
	EventConfirmed EventKind = "run.confirmed"
	EventSwitched  EventKind = "run.switched"
	EventFinal     EventKind = "run.final" // the last slot is applied here and certified
	EventDone      EventKind = "run.done"  // and all have it, or have had the time

	EventMotion     EventKind = "access.ordered"
	EventRemoved    EventKind = "peer.removed"
	EventReadmitted EventKind = "peer.readmitted"
	EventRotated    EventKind = "secret.rotated"
)

// Ending says how far a chain is that has reached the run's last slot.
type Ending int

// The endings.
const (
	EndsNot         Ending = iota // the last slot is not applied here, or not agreed
	EndsAsRun                     // the model is the run's
	EndsProvisional               // it may still be another one: see chain.Provisional
)

// String is how events name an ending.
func (e Ending) String() string {
	switch e {
	case EndsAsRun:
		return "run"
	case EndsProvisional:
		return "provisional"
	case EndsNot:
	}
	return "not yet"
}
