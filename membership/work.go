package membership

import (
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
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
	// ReportKey: this peer has a secret that nobody else knows, of this commitment, for the next change; it is on disk once it is held.
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
