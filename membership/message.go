package membership

import (
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// Message is one ledger message whose signature has been checked: From, in this incarnation, signed the body.
type Message struct {
	From        slot.PeerID
	Incarnation slot.Incarnation
	Body        Body
	Sig         []byte // the signature itself: those of Vote and ForkVote go into certificates
}

// Body is what a message says: one of the types below. Bodies are values and are never changed once made.
type Body interface {
	Type() slot.MessageType
	Append(b []byte) []byte // canonical encoding: the signed bytes
}

type (
	// Offer says that a contribution is ready. Gossiped.
	Offer struct{ slot.Offer }

	// Plan divides a reduction. From the leader to the members.
	Plan struct{ slot.Plan }

	// Segment is an owner's statement of what it reduced for a group, whichever revision of the plan it goes by, and from what. To the
	// leader.
	Segment struct {
		slot.Ref
		Group  slot.Root // slot.Plan.Group
		Inputs slot.Root // inputsOf: two statements of equal inputs with different roots are evidence; zero in a ring
		slot.Segment
	}

	// Lost tells the leader that a peer of the group cannot be reached or sends what may not be used.
	Lost struct {
		slot.Ref
		Group  slot.Root
		Peer   slot.PeerID
		Reason LostReason
		Round  slot.Root // slot.Plan.Round of the plan that it is about; zero where that does not matter
	}

	// Draft is the outcome that the leader wants to propose. To the members and the newcomers.
	Draft struct{ slot.Draft }

	// Have says: all bytes of this outcome and the state after the record before it are on my disk. To the leader.
	Have struct {
		slot.Ref
		Outcome   slot.Root // slot.Draft.Outcome
		StateRoot slot.Root // of the state after the record at Height-1
	}

	// Propose carries the leader's record, once a ballot. The leader's own Vote goes with it. With a fork record it asks those that
	// the record lists for their ForkVote; Ballot is the attempt.
	Propose struct {
		Ballot uint32
		Record slot.Record
	}

	// Vote is a member's word for a proposal. To the leader.
	Vote struct{ slot.Vote }

	// ForkVote is a listed member's signature on a fork record; founding is a fork of R_0.
	ForkVote struct{ slot.Vote }

	// Commit proves a record. To members old and new, gossiped, and in answer to Need.
	Commit struct {
		Record      slot.Record
		Certificate slot.Certificate
	}

	// Prepare asks for promises. From the leader of a ballot above 0.
	Prepare struct{ slot.Ref }

	// Promise answers Prepare: no vote below this ballot any more, and the highest vote so far.
	Promise struct {
		slot.Ref
		Voted      bool
		VoteBallot uint32      // if Voted
		VoteRecord slot.Record // if Voted
	}

	// Beat shows that the leader's reduction gets on: any counter that rises is life. To the members.
	Beat struct {
		slot.Ref
		Revision uint32
		Offers   uint32
		Bytes    uint64 // of the reduction, as the leader saw them
		Haves    uint32
		Votes    uint32
		Segments uint32
	}

	// Alive is gossiped by members and by those who want to be.
	Alive struct {
		Branch      slot.Root // hash of the newest fork record of the chain, zero when there is no chain: it names the branch
		Height      uint64    // of the newest certified record known
		Tip         slot.Root // its hash
		Work        uint64    // its work
		Applied     uint64    // height of the newest record applied; meaningful only if Synced
		Synced      bool      // the state after Applied is held
		Slot        uint64    // of the newest record applied
		Contributes bool      // a trainer is at work here
		Steps       uint32    // inner steps done in the current round, for status
		Reaches     []slot.PeerID
		Links       []slot.Link   // of the ways to Reaches: slot.LinkDirect or a speed, and whether they lead through a relay
		Apart       []slot.PeerID // members that it failed to reach in a reduction, and has had no connection to since
		Uplink      slot.Link     // what it can send to all together: slot.LinkDirect, for unknown, or a speed
	}

	// Join asks to be made a member, repeated until a record says so. The sender follows the chain and answers drafts. Gossiped.
	Join struct{ Contributes bool }

	// Leave asks to be dropped, repeated until a record says so. Gossiped.
	Leave struct{}

	// Evidence shows that an incarnation contradicted itself. Gossiped.
	Evidence struct {
		Kind          slot.MessageType // of both messages
		Peer          slot.PeerID      // who signed them
		Incarnation   slot.Incarnation
		First, Second Said // in the order of their bodies
	}

	// Order says what its sender's operator wants done about who may be in the run. Gossiped.
	Order struct{ slot.Order }

	// Need asks a peer for certified records from a height on, answered with a few Commits. Direct.
	Need struct{ From uint64 }
)

// Said is a body as it was signed.
type Said struct{ Body, Sig []byte }

// LostReason says why a peer is reported. The enumeration only grows.
type LostReason uint8

// Why a peer of a plan is reported.
const (
	LostConnection LostReason = 1 // reset, closed, or no progress for the stall limit
	LostBadValue   LostReason = 2 // NaN, Inf or 2^100 and more in its contribution
	LostBadBytes   LostReason = 3 // bytes that do not hash to what it offered, or break the protocol
	LostOutcome    LostReason = 4 // what it states to have reduced is not to be had from anybody
)

// Type implements Body.
func (Offer) Type() slot.MessageType    { return slot.TypeOffer }
func (Plan) Type() slot.MessageType     { return slot.TypePlan }
func (Segment) Type() slot.MessageType  { return slot.TypeSegment }
func (Lost) Type() slot.MessageType     { return slot.TypeLost }
func (Draft) Type() slot.MessageType    { return slot.TypeDraft }
func (Have) Type() slot.MessageType     { return slot.TypeHave }
func (Propose) Type() slot.MessageType  { return slot.TypePropose }
func (Vote) Type() slot.MessageType     { return slot.TypeVote }
func (ForkVote) Type() slot.MessageType { return slot.TypeFork }
func (Commit) Type() slot.MessageType   { return slot.TypeCommit }
func (Prepare) Type() slot.MessageType  { return slot.TypePrepare }
func (Promise) Type() slot.MessageType  { return slot.TypePromise }
func (Beat) Type() slot.MessageType     { return slot.TypeBeat }
func (Alive) Type() slot.MessageType    { return slot.TypeAlive }
func (Join) Type() slot.MessageType     { return slot.TypeJoin }
func (Leave) Type() slot.MessageType    { return slot.TypeLeave }
func (Need) Type() slot.MessageType     { return slot.TypeNeed }
func (Evidence) Type() slot.MessageType { return slot.TypeEvidence }
func (Order) Type() slot.MessageType    { return slot.TypeOrder }

// placed is a body about one attempt at one height.
type placed interface{ At() slot.Ref }

// At is the attempt that the proposal belongs to.
func (m Propose) At() slot.Ref {
	return slot.Ref{Height: m.Record.Height, Prev: m.Record.Prev, Ballot: m.Ballot}
}

// Envelope is a body on its way out, not yet signed.
type Envelope struct {
	To     []slot.PeerID // direct; may name this peer itself: the driver hands such a message back once it is signed
	Gossip bool          // to the run's topic as well (To may be empty)
	Body   Body
}

// Entry is one thing that must be on disk before the messages and work of the same Ready go out (DESIGN 4, on disk before).
type Entry interface{ isEntry() }

type (
	// EntryPromise: no vote below this ballot at this height any more.
	EntryPromise struct{ slot.Ref }
	// EntryVote: the vote, and the record voted for. A leader's proposal is its own vote.
	EntryVote struct {
		slot.Ref
		Record slot.Record
	}
	// EntryOffer: the highest offer sequence number used.
	EntryOffer struct{ Seq uint64 }
	// EntryFork: this peer signs this fork record. One signature per parent and attempt.
	EntryFork struct {
		slot.Ref // Ballot is the attempt
		Record   slot.Record
	}
	// EntryCommit: a certified record, now the tip. Votes and promises for its height are forgotten.
	EntryCommit struct {
		Record      slot.Record
		Certificate slot.Certificate
	}
	// EntryRewind: the chain above Height is given up for another branch; EntryCommits of that one follow.
	EntryRewind struct{ Height uint64 }
)

func (EntryPromise) isEntry() {}
func (EntryVote) isEntry()    {}
func (EntryOffer) isEntry()   {}
func (EntryFork) isEntry()    {}
func (EntryCommit) isEntry()  {}
func (EntryRewind) isEntry()  {}

// Saved is what a store gives back at start.
type Saved struct {
	Incarnation slot.Incarnation
	Boot        uint64   // rises by one with every opening of the store
	Chain       []Commit // heights 1, 2, … without gap
	Promise     *EntryPromise
	Vote        *EntryVote // the newest vote at the height above the chain, if any
	Fork        *EntryFork // the newest fork signature at the height above the chain, if any
	OfferSeq    uint64
	Elsewhere   []Entry // the newest EntryPromise, EntryVote and EntryFork of every other place (height, prev) (HOLES H7)
}

// Event is what happened, for logs, status and event files. It binds nobody.
type Event struct {
	Kind         EventKind
	Height       uint64
	Slot         uint64
	Ballot       uint32
	Peer         slot.PeerID // about whom
	Members      []slot.PeerID
	Contributors []slot.PeerID
	Root         slot.Root // outcome of a commit, record that another branch begins with, last state of the run, or certified state where a peer differs
	State        slot.Root // where a peer differs: the root of the state that it holds; of a certified record: the state before it
	Record       slot.Root // hash of the record that was proposed or certified
	Prev         slot.Root // of the record before it
	RecordKind   slot.Kind
	Detail       string // plain words

	Plan  *slot.Plan // of EventPlanned
	Links slot.Links // what the plan's peers say of the ways between them
}

// DetailRemoved is what EventLeft says of a peer that a record has removed.
const DetailRemoved = "removed"

// EventKind names an event.
type EventKind string

// The ledger's events.
const (
	EventFounded   EventKind = "run.founded"
	EventJoined    EventKind = "run.joined"
	EventPlanned   EventKind = "slot.planned"
	EventDrafted   EventKind = "record.drafted"
	EventProposed  EventKind = "record.proposed"
	EventCertified EventKind = "record.certified"
	EventCommitted EventKind = "slot.committed"
	EventMembers   EventKind = "members.changed"
	EventSuspected EventKind = "peer.suspected"
	EventLeft      EventKind = "peer.left"
	EventRefused   EventKind = "peer.refused"
	EventEvicted   EventKind = "peer.evicted"
	EventCloned    EventKind = "peer.cloned"
	EventPaused    EventKind = "run.paused"
	EventResumed   EventKind = "run.resumed"
	EventDiverged  EventKind = "state.diverged"
	EventForked    EventKind = "run.forked"
	EventSwitched  EventKind = "run.switched"
	EventDone      EventKind = "run.done"

	EventOrdered    EventKind = "access.ordered"
	EventRemoved    EventKind = "peer.removed"
	EventReadmitted EventKind = "peer.readmitted"
	EventRotated    EventKind = "secret.rotated"
)

// Work is something the machine wants done outside: one of the types below.
type Work interface{ isWork() }

type (
	// WorkFound: make the initial state durable; then ReportApplied at height 0.
	WorkFound struct{}
	// WorkReduce: take part in the reduction (as contributor and owner) by this plan. A plan of the group that runs revises it, any
	// other replaces it; one in which this peer is gone ends it. Then ReportSegment for every range of an own piece, ReportLost for
	// peers that fail, ReportProgress now and then.
	WorkReduce struct{ Plan slot.Plan }
	// WorkHold: get all bytes of the draft's outcome on disk, from the reduction or from the peers named; of an access record, the secret
	// that its key names. Then ReportHeld.
	WorkHold struct {
		Draft slot.Draft
		From  []slot.PeerID
	}
	// WorkApply: apply a certified record whose predecessor is applied. Step records take their outcome from disk or fetch it
	// from the peers named. Then ReportApplied, or ReportFailed if the outcome cannot be had.
	WorkApply struct {
		Record slot.Record
		From   []slot.PeerID
	}
	// WorkSync: fetch a checkpoint with a certified root from the peers named, because there is no state or it is too far
	// behind or wrong. Roots lists the states that would do, newest first. Then ReportApplied at the height reached, or
	// ReportFailed.
	WorkSync struct {
		Roots []CertifiedState
		From  []slot.PeerID
	}
	// WorkAccess: who may be in the run has changed, or this peer has just started: Machine.Standing says who. Key names a private run's
	// secret from now on, which the peers named have; zero: the one it was founded with. ReportFailed if it cannot be had; it is
	// asked for again then.
	WorkAccess struct {
		Key  slot.Root
		From []slot.PeerID
	}
)

// CertifiedState is a state whose root a certified record names.
type CertifiedState struct {
	Height uint64 // the state is the one after the record at this height
	Slot   uint64
	Root   slot.Root
	Record slot.Root // hash of the record at this height, for ReportApplied
}

func (WorkAccess) isWork() {}
func (WorkFound) isWork()  {}
func (WorkReduce) isWork() {}
func (WorkHold) isWork()   {}
func (WorkApply) isWork()  {}
func (WorkSync) isWork()   {}

// Report is what comes back from outside: one of the types below.
type Report interface{ isReport() }

type (
	// ReportOffer: this peer's contribution to the slot after the newest applied one is ready.
	ReportOffer struct {
		Slot, Base, Weight uint64
		Root               slot.Root
		Steps, StepTime    uint32 // inner steps behind it, and what one took in microseconds; 0 for unknown
	}
	// ReportSegment: a range of an own piece is reduced. Contributors is a bitmap over the plan's offers.
	ReportSegment struct {
		Group   slot.Root
		Segment slot.Segment
	}
	// ReportLinks: how fast this peer can send to others, and to all together, in kB/s, as measured. It takes the place of the one before.
	ReportLinks struct {
		Speeds map[slot.PeerID]uint32
		Uplink uint32 // 0 for unknown
	}
	// ReportProgress: bytes of the running reduction received so far.
	ReportProgress struct{ Bytes uint64 }
	// ReportLost: a peer of the group failed, in that round of a ring.
	ReportLost struct {
		Group  slot.Root
		Peer   slot.PeerID
		Reason LostReason
		Round  slot.Root
	}
	// ReportHeld: the outcome of this draft is on disk.
	ReportHeld struct {
		slot.Ref
		Outcome slot.Root
	}
	// ReportApplied: the state after this height is held and has this root. Record is the hash of the record at this height, kept
	// with the state: after a change of chains a state on disk may be another chain's. Zero: not known, and taken for this chain's.
	ReportApplied struct {
		Height, Slot uint64
		StateRoot    slot.Root
		Record       slot.Root
	}
	// ReportFailed: work could not be done; the machine decides what instead.
	ReportFailed struct {
		Work    Work
		Err     string
		Missing []slot.Range // of WorkHold: the segments whose bytes nobody gives
	}
	// ReportConnected: a connection to a peer came or went, or leads another way.
	ReportConnected struct {
		Peer      slot.PeerID
		Connected bool
		Relayed   bool // it leads through a relay
	}
	// ReportContributes: whether a trainer is at work here, and how far it is.
	ReportContributes struct {
		Contributes bool
		Steps       uint32
	}
	// ReportRecover: an operator wants this peer to go on without a quorum.
	ReportRecover struct{}
	// ReportEcho: somebody else announced this under this peer's own name, and signed it with its key.
	ReportEcho struct{ Message }
	// ReportOrders: what this peer's operator wants done about who may be in the run, instead of what was wanted before. Turn is
	// Standing's; an order whose turn is over is void.
	ReportOrders struct{ Orders []slot.Order }
	// ReportKey: a secret that nobody else knows yet is on disk here under this commitment, for the next change.
	ReportKey struct{ Key slot.Root }
	// ReportLeave: this peer wants to leave the run.
	ReportLeave struct{}
)

func (ReportOffer) isReport()       {}
func (ReportSegment) isReport()     {}
func (ReportProgress) isReport()    {}
func (ReportLinks) isReport()       {}
func (ReportLost) isReport()        {}
func (ReportHeld) isReport()        {}
func (ReportApplied) isReport()     {}
func (ReportFailed) isReport()      {}
func (ReportConnected) isReport()   {}
func (ReportContributes) isReport() {}
func (ReportLeave) isReport()       {}
func (ReportRecover) isReport()     {}
func (ReportEcho) isReport()        {}
func (ReportOrders) isReport()      {}
func (ReportKey) isReport()         {}

// Ready is what a machine wants after an input: first Persist (durably, in order), then Send, Work and Events.
type Ready struct {
	Persist []Entry
	Send    []Envelope
	Work    []Work
	Events  []Event
}
