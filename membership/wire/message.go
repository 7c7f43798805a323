package wire

import (
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	canonical "github.com/p2pdiloco/p2pdiloco/internal/wire"
)

// Message is one ledger message whose signature has been checked: From, in this incarnation, signed
// the body.
type Message struct {
	From        slot.PeerID
	Incarnation slot.Incarnation
	Body        Body
	Sig         []byte // the signature itself: those of Vote and ForkVote go into certificates
}

// Body is what a message says: one of the types below. Bodies are values and are never changed once
// made.
type Body interface {
	Type() slot.MessageType
	Append(b []byte) []byte // canonical encoding: the signed bytes
}

// carrier is a body with more beside its signed bytes: records that these name by their hash, and
// other peers' signatures. So a signature of few bytes speaks for all of it, in promises, QCs and
// evidence.
type carrier interface {
	appendCarried(b []byte) []byte
	readCarried(r *canonical.Reader) Body
}

type (
	// Offer says that a contribution is ready. Gossiped.
	Offer struct{ slot.Offer }

	// Plan divides a reduction. From the leader to the members.
	Plan struct {
		slot.Plan
		Proofs []OfferProof // of Offers
	}

	// Segment is an owner's statement of what it reduced for a group, whichever revision of the
	// plan it goes by, and from what. To the leader.
	Segment struct {
		slot.Ref
		Group slot.Root // slot.Plan.Group
		// inputsOf: two statements of equal inputs with different roots are evidence; zero in a
		// ring
		Inputs slot.Root
		slot.Segment
	}

	// Lost tells the leader that a peer of the group cannot be reached or sends what may not be
	// used; with LostSamples, about no group, it tells all electors.
	Lost struct {
		slot.Ref
		Group  slot.Root
		Peer   slot.PeerID
		Reason LostReason
		// slot.Plan.Round of the plan that it is about; zero where that does not matter
		Round slot.Root
	}

	// Draft is the record that the leader wants decided, once a ballot. To the electors and to
	// those that the record lists as electors. Its leader's own Have is on disk with it.
	Draft struct {
		slot.Vote
		Drafted
		// not signed: what stands for the record's contributions, its segments and the proofs,
		// which are left out then. Nil in a whole draft, and in any with a QC.
		ByPlan *ByPlan
	}

	// Have is the first vote for a draft: its record may follow, all bytes of its outcome and the
	// state after the record before it are on the sender's disk, and so is this HAVE. Once a
	// ballot. To the leader.
	Have struct{ slot.Vote }

	// Propose shows the electors that the draft of a ballot has its first votes.
	Propose struct {
		slot.Vote
		QC *QC // not signed: it consists of signatures
	}

	// Vote is an elector's second vote, which locks it. To the leader.
	Vote struct{ slot.Vote }

	// ForkDraft asks those that a fork record lists for their ForkVote. Ballot is the attempt.
	ForkDraft struct {
		Ballot uint32
		Record slot.Record
	}

	// ForkVote is a listed member's signature on a fork record; founding is a fork of R_0.
	ForkVote struct{ slot.Vote }

	// Commit proves a record. To members old and new, gossiped, and in answer to Need.
	Commit struct {
		// not signed: the certificate names it by its hash. It is zero, which no certified record
		// is, in a COMMIT to a peer that holds the record.
		Record      slot.Record
		Certificate slot.Certificate
	}

	// Retry asks for promises of the next ballot of a term. From the term's leader to the electors.
	Retry struct{ slot.Ref }

	// Promise says: neither HAVE nor VOTE below this ballot any more, and tells the lock, which is
	// the vote of the highest ballot so far. It is the answer to Retry, and what an elector says by
	// itself when a term is over for it. To all members.
	Promise struct {
		slot.Ref
		Lock *Lock // nil: the sender has voted for nothing at this height
		// not signed: the record of the lock, with what proves it; for the ballot's leader only
		Locked *Locked
	}

	// Beat shows that the leader's reduction makes progress: any counter that rises is a sign of
	// life. To the electors.
	Beat struct {
		slot.Ref
		Revision uint32
		Offers   uint32
		Bytes    uint64 // of the reduction, as the leader saw them
		Haves    uint32
		Votes    uint32
		Segments uint32
	}

	// Alive is gossiped by members and by peers that want to be members.
	Alive struct {
		// hash of the newest fork record of the chain, zero when there is no chain: it names the
		// branch
		Branch      slot.Root
		Height      uint64    // of the newest certified record known
		Tip         slot.Root // its hash
		Work        uint64    // its work
		Applied     uint64    // height of the newest record applied; meaningful only if Synced
		Synced      bool      // the state after Applied is held
		Slot        uint64    // of the newest record applied
		Contributes bool      // a trainer is at work here
		Steps       uint32    // inner steps done in the current round, for status
		Reaches     []slot.PeerID
		// of the ways to Reaches, one for each: slot.LinkDirect or a speed, and whether they lead
		// through a relay
		Links []slot.Link
		// members that it failed to reach in a reduction, and has had no connection to since
		Apart []slot.PeerID
		// the speed at which it can send to all together; slot.LinkDirect for unknown
		Uplink slot.Link
		// what the sender says of itself, for people; empty in most. The ledger does not look at it
		Claims []byte
	}

	// Join asks to be made a member, repeated until a record says so. The sender follows the chain
	// and answers drafts. Gossiped.
	Join struct{ Contributes bool }

	// Leave asks to be dropped, repeated until a record says so. Since is that of the membership
	// that ends: if the sender comes back, its old LEAVE is of no use to anybody. Gossiped.
	Leave struct{ Since uint64 }

	// Evidence shows that an incarnation contradicted itself, or what it has signed is false.
	// Gossiped; where it is large (Evidence.Large) it is announced by Accuse, and sent to peers
	// that Ask.
	Evidence struct {
		// of both messages; or KindFalseOutcome, KindFalseOffer
		Kind          slot.MessageType
		Peer          slot.PeerID // the incarnation that signed them
		Incarnation   slot.Incarnation
		First, Second SignedBody // in the order of their bodies
	}

	// Accuse announces large evidence. Gossiped.
	Accuse struct {
		Peer        slot.PeerID // the incarnation that it is against
		Incarnation slot.Incarnation
		Hash        slot.Root // of the body of the evidence
	}

	// Ask asks for the evidence with this hash. Direct.
	Ask struct{ Hash slot.Root }

	// Motion says what its sender's operator wants done about the membership. Gossiped.
	Motion struct{ slot.Motion }

	// Need asks a peer for certified records from a height on, answered with some Commits. Direct.
	Need struct{ From uint64 }
)

// MaxClaims bounds the claims of an ALIVE, in bytes.
const MaxClaims = 256

// Drafted is what travels beside the signed part of a draft, which names the record by its hash.
type Drafted struct {
	Record   slot.Record
	Proofs   []OfferProof // of the record's contributions
	Attached Attachments  // of its drops, if it was a free choice in trust byzantine
	Owners   Owners       // of the segments of a step that is audited
	Grounds  Grounds
}

// ByPlan is the outcome of a record whose contributions are offers of a plan.
type ByPlan struct {
	Group    slot.Root   // slot.Plan.Group
	Used     slot.Bitmap // over the plan's offers: the contributions
	Segments []slot.Segment
}

// Locked is a record with its QC.
type Locked struct {
	QC     QC
	Record slot.Record
	Proofs []OfferProof // of the record's contributions
}

// SignedBody is a body as it was signed.
type SignedBody struct{ Body, Sig []byte }

// LostReason says why a peer is reported. The enumeration only grows.
type LostReason uint8

// These are the reasons why a peer of a plan is reported.
const (
	LostConnection LostReason = 1 // reset, closed, or no progress for the stall limit
	LostBadValue   LostReason = 2 // NaN, Inf or 2^100 and more in its contribution
	// bytes that do not hash to what it offered, or break the protocol
	LostBadBytes LostReason = 3
	LostOutcome  LostReason = 4 // no peer serves what it states to have reduced
	// to all electors: it shows the sender nothing of what that wants to check of its contribution
	LostSamples LostReason = 6
)

// Type implements Body.
func (Offer) Type() slot.MessageType { return slot.TypeOffer }

// Type implements Body.
func (Plan) Type() slot.MessageType { return slot.TypePlan }

// Type implements Body.
func (Accuse) Type() slot.MessageType { return slot.TypeAccuse }

// Type implements Body.
func (Ask) Type() slot.MessageType { return slot.TypeAsk }

// Type implements Body.
func (Segment) Type() slot.MessageType { return slot.TypeSegment }

// Type implements Body.
func (Lost) Type() slot.MessageType { return slot.TypeLost }

// Type implements Body.
func (Draft) Type() slot.MessageType { return slot.TypeDraft }

// Type implements Body.
func (Have) Type() slot.MessageType { return slot.TypeHave }

// Type implements Body.
func (Propose) Type() slot.MessageType { return slot.TypePropose }

// Type implements Body.
func (ForkDraft) Type() slot.MessageType { return slot.TypeForkDraft }

// Type implements Body.
func (Vote) Type() slot.MessageType { return slot.TypeVote }

// Type implements Body.
func (ForkVote) Type() slot.MessageType { return slot.TypeFork }

// Type implements Body.
func (Commit) Type() slot.MessageType { return slot.TypeCommit }

// Type implements Body.
func (Retry) Type() slot.MessageType { return slot.TypeRetry }

// Type implements Body.
func (Promise) Type() slot.MessageType { return slot.TypePromise }

// Type implements Body.
func (Beat) Type() slot.MessageType { return slot.TypeBeat }

// Type implements Body.
func (Alive) Type() slot.MessageType { return slot.TypeAlive }

// Type implements Body.
func (Join) Type() slot.MessageType { return slot.TypeJoin }

// Type implements Body.
func (Leave) Type() slot.MessageType { return slot.TypeLeave }

// Type implements Body.
func (Need) Type() slot.MessageType { return slot.TypeNeed }

// Type implements Body.
func (Evidence) Type() slot.MessageType { return slot.TypeEvidence }

// Type implements Body.
func (Motion) Type() slot.MessageType { return slot.TypeMotion }

// Attempt is a body about one attempt at one height.
type Attempt interface{ At() slot.Ref }

// At is the attempt that the fork belongs to.
func (m ForkDraft) At() slot.Ref {
	return slot.Ref{Height: m.Record.Height, Prev: m.Record.Prev, Ballot: m.Ballot}
}

// Envelope is a body on its way out, not yet signed.
type Envelope struct {
	// direct; may name this peer itself: the driver hands such a message back once it is signed
	To     []slot.PeerID
	Gossip bool // to the run's topic as well (To may be empty)
	Body   Body
	// directly to peers, none of them in To, that hold a part of what Body carries: they get this
	// form of it, which has the same signed bytes and leaves that part out
	Brief   Body
	BriefTo []slot.PeerID
}
