package chain

import (
	"slices"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// Rules are the run spec's values that the ledger needs: equal on all peers.
type Rules struct {
	Run slot.Root
	// members may lie: all but a third of them decide, see Quorum. Else only crashes are withstood
	Byzantine bool
	// the run ends once this slot is applied and certified; 0 means it has no end
	LastSlot     uint64
	StartPeers   int    // slot 1 waits for this number of members
	MinPeers     int    // contributors with which a slot may close, at least 1
	MaxStaleness uint64 // an offer's base may lie so many slots behind Slot-1
	// how many slots before theirs is decided members begin to train for one: 1 where slots overlap
	// with inner steps
	Ahead     uint64
	MaxWeight uint64 // cap of an offer's weight; 0 means none
	// of its weight, a contribution counts at most so many times the median of the newest steps'
	// contributions, in the outcome and in the chain's work; 0: no bound
	MaxWeightRatio uint64
	// more than half of them must sign the founding record, and nobody else; empty: any one peer
	// may
	Founders []slot.PeerID
	// the state that the founding record must name; zero: the founder chooses
	InitRoot slot.Root
	// inner steps that a part of the data is enough for; 0: each contribution takes a whole part
	PartSteps uint64
	// parameters of the members' inner steps, if those follow from measured speeds
	Pace PaceRules
	// seats, at most, where they are earned; 0: 31. Other members contribute without a vote.
	MaxElectors int
	// newcomers, per mille of the other contributors, that may contribute to a slot where seats are
	// earned
	NewcomerShare uint64
	// the longest term of one leader: terms double up to it. It is longer than the slowest
	// reduction; 0: an hour
	TermCap time.Duration
	Rings   bool // plans may have a ring (slot.Plan.Ring)
	Private bool // the members share a secret, which an access record can change
	// samples of each segment that the electors of a quorum check together, before they give HAVE;
	// 0: none is
	AuditSamples int
	// says whether a proof convicts the peer that signed an offer or a segment; nil: none does
	CheckProof ProofChecker
	// elements of a frame, the unit that owners are given; 0: one element
	Frame uint64
	// elements of each fragment, at least one: segments of a slot cover [0, elements) of its
	// fragment
	Fragments []uint64
}

// ProofChecker checks proofs that need the run's arithmetic (package audit). Their form is not of
// the ledger. An error says why a proof proves nothing.
type ProofChecker interface {
	// FalseOutcome: what the owner states is not what its inputs (wire.Inputs) give.
	FalseOutcome(owner slot.PeerID, s wire.Segment, proof []byte) error
	// FalseOffer: the contribution is not what the offer commits to.
	FalseOffer(o slot.Offer, proof []byte) error
}

// Audits says whether electors check samples of an outcome.
func (r Rules) Audits() bool { return r.Byzantine && r.AuditSamples > 0 }

// MayFound says whether a peer may sign the founding record.
func (r Rules) MayFound(p slot.PeerID) bool {
	return len(r.Founders) == 0 || slices.Contains(r.Founders, p)
}

// Fragment returns the fragment that a slot updates.
func (r Rules) Fragment(slotNumber uint64) uint32 {
	return slot.FragmentOf(slotNumber, uint64(len(r.Fragments)))
}

// Elements is the number of elements of the fragment that a slot updates.
func (r Rules) Elements(slotNumber uint64) uint64 { return r.Fragments[r.Fragment(slotNumber)] }
