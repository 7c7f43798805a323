package membership

import (
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/chain"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// Work is a task that the machine gives to the worker: one of the types below.
type Work interface{ isWork() }

type (
	// WorkFound asks the worker to make the initial state durable, and to send ReportApplied at
	// height 0 then.
	WorkFound struct{}
	// WorkReduce: take part in the reduction (as contributor and owner) by this plan. A plan of the
	// group that runs revises it, any other replaces it; one in which this peer is gone ends it.
	// Then ReportSegment for every range of an own piece, ReportLost for peers that fail,
	// ReportProgress now and then. Share bounds the newcomers in each range: an owner
	// that loses other contributors goes on without as many newcomers as are too many beside those
	// that are left, or its range is refused.
	WorkReduce struct {
		Plan  slot.Plan
		Share chain.Share
	}
	// WorkHold asks the worker to get all bytes of the draft's outcome on disk, from the reduction
	// or from the peers named; of an access record, the secret that its key names. Then ReportHeld.
	WorkHold struct {
		Draft slot.Draft
		From  []slot.PeerID
	}
	// WorkAudit asks the worker to check samples of the draft's outcome, which is held, against the
	// contributions. Then ReportAudited.
	WorkAudit struct {
		Draft  slot.Draft
		Record slot.Root     // hash of the draft's record
		Owners []slot.PeerID // of the draft's segments
		Quorum int           // electors that share the samples of a segment
	}
	// WorkApply asks the worker to apply a certified record after its predecessor. Step records
	// take their outcome from disk or fetch it from the peers named. Then ReportApplied, or
	// ReportFailed if the outcome cannot be had.
	WorkApply struct {
		Record slot.Record
		From   []slot.PeerID
	}
	// WorkSync asks the worker to fetch a checkpoint with a certified root from the peers named,
	// because it has no state or a wrong one, or is too far behind. Roots lists the states that
	// would do, newest first. Then ReportApplied at the height reached, or ReportFailed.
	WorkSync struct {
		Number uint64 // another one each time
		Roots  []CertifiedState
		From   []slot.PeerID
	}
	// WorkAccess: the set of peers that may be in the run has changed, or this peer has just
	// started: Machine.Access tells them. Key names a private run's secret from now on, which the
	// peers named have; zero: the one it was founded with. ReportFailed if it cannot be had; it is
	// asked for again then.
	WorkAccess struct {
		Key  slot.Root
		From []slot.PeerID
	}
)

// CertifiedState is a state with a root that a certified record names.
type CertifiedState struct {
	Height uint64 // the state is the one after the record at this height
	Slot   uint64
	Root   slot.Root
	Record slot.Root // hash of the record at this height, for ReportApplied
}

func (WorkAccess) isWork() {}
func (WorkAudit) isWork()  {}
func (WorkFound) isWork()  {}
func (WorkReduce) isWork() {}
func (WorkHold) isWork()   {}
func (WorkApply) isWork()  {}
func (WorkSync) isWork()   {}

// Report is what the worker or the node reports to the machine: one of the types below.
type Report interface{ isReport() }

type (
	// ReportOffer says that this peer's contribution to the slot after the newest applied one is
	// ready.
	ReportOffer struct {
		Slot, Base, Weight uint64
		Root               slot.Root
		NormSq             float64 // of the contribution; see slot.Offer
		// inner steps behind it, and what one took in microseconds; 0 for unknown
		Steps, StepTime uint32
	}
	// ReportSegment says that a range of an own piece is reduced. Contributors is a bitmap over the
	// plan's offers.
	ReportSegment struct {
		Group   slot.Root
		Segment slot.Segment
	}
	// ReportLinks: how fast this peer can send to others, and to all together, in kB/s, as
	// measured. It takes the place of the one before.
	ReportLinks struct {
		Speeds map[slot.PeerID]uint32
		Uplink uint32 // 0 for unknown
	}
	// ReportProgress counts the bytes of the running reduction received so far.
	ReportProgress struct{ Bytes uint64 }
	// ReportLost says that a peer of the group failed, and in which round of a ring.
	ReportLost struct {
		Group  slot.Root
		Peer   slot.PeerID
		Reason wire.LostReason
		Round  slot.Root
	}
	// ReportHeld says that the outcome of this draft is on disk.
	ReportHeld struct {
		slot.Ref
		Outcome slot.Root
	}
	// ReportAudited says what was found in the samples of an outcome. Nothing against it: both
	// lists are empty.
	ReportAudited struct {
		slot.Ref
		Record  slot.Root // WorkAudit.Record
		False   []FalseSegment
		Unshown []slot.PeerID // contributors of which nobody shows a sample
	}
	// ReportFalseOffer: the contribution to the open slot with this offer is not what the offer
	// commits to.
	ReportFalseOffer struct {
		Offer slot.Offer
		Proof []byte // for Rules.CheckProof
	}
	// ReportApplied says that the state after this height is held and has this root. Record is the
	// hash of the record at this height, kept with the state: after a change of chains a state on
	// disk may be another chain's. Zero: not known, and taken for this chain's.
	ReportApplied struct {
		Height, Slot uint64
		StateRoot    slot.Root
		Record       slot.Root
	}
	// ReportFailed says that work could not be done. The machine decides what replaces it.
	ReportFailed struct {
		Work    Work
		Err     string
		Missing []slot.Range // after WorkHold: the segments that no peer gives
	}
	// ReportConnected says that a connection to a peer came or went, or leads another way.
	ReportConnected struct {
		Peer      slot.PeerID
		Connected bool
		Relayed   bool // it leads through a relay
	}
	// ReportClaims is what the next ALIVE says for people, at most wire.MaxClaims bytes.
	ReportClaims []byte

	// ReportContributes says whether a trainer works here, and how far it is.
	ReportContributes struct {
		Contributes bool
		Steps       uint32
	}
	// ReportRecover says that an operator wants this peer to go on without a quorum.
	ReportRecover struct{}
	// ReportReturned says that this peer did not run for a while, with its machine or alone: what
	// it heard is old, and the time since then was none for the others to answer in.
	ReportReturned struct{}
	// ReportClone says that another process announced this message under this peer's own name, and
	// signed it with its key.
	ReportClone struct{ wire.Message }
	// ReportMotions: what this peer's operator wants done about the membership, instead of
	// what was wanted before. Turn is Access's; a motion whose turn is over is void.
	ReportMotions struct{ Motions []slot.Motion }
	// ReportKey says that this peer has a secret with this commitment for the next change. Nobody
	// else knows it, and it is on disk once it is held.
	ReportKey struct{ Key slot.Root }
	// ReportLeave says that this peer wants to leave the run.
	ReportLeave struct{}
)

func (ReportOffer) isReport()       {}
func (ReportSegment) isReport()     {}
func (ReportProgress) isReport()    {}
func (ReportLinks) isReport()       {}
func (ReportLost) isReport()        {}
func (ReportHeld) isReport()        {}
func (ReportAudited) isReport()     {}
func (ReportFalseOffer) isReport()  {}
func (ReportApplied) isReport()     {}
func (ReportFailed) isReport()      {}
func (ReportConnected) isReport()   {}
func (ReportClaims) isReport()      {}
func (ReportContributes) isReport() {}
func (ReportLeave) isReport()       {}
func (ReportRecover) isReport()     {}
func (ReportReturned) isReport()    {}
func (ReportClone) isReport()       {}
func (ReportMotions) isReport()     {}
func (ReportKey) isReport()         {}

// FalseSegment is a segment of an audited draft that is not what its contributions give.
type FalseSegment struct {
	Segment int    // its index
	Proof   []byte // for Rules.CheckProof
}

// Ready is what a machine wants done after an input: first Persist (durably, in order), then Send,
// Work and Events.
type Ready struct {
	Persist []wire.Entry
	Send    []wire.Envelope
	Work    []Work
	Events  []Event
}
