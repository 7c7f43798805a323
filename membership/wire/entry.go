package wire

import (
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// Entry is one thing that must be on disk before the messages and work of the same Ready go out
// (DESIGN 4, on disk before).
type Entry interface{ isEntry() }

type (
	// EntryPromise says that this peer votes for no ballot below this one at this height any more.
	EntryPromise struct{ slot.Ref }
	// EntryVote holds the vote, and the record voted for. A leader's proposal is its own vote.
	EntryVote struct {
		slot.Ref
		Record slot.Record
		Proofs []OfferProof // of the record's contributions
	}
	// EntryOffer holds the highest offer sequence number used.
	EntryOffer struct{ Seq uint64 }
	// EntryFork says that this peer signs this fork record. There is one signature per parent and
	// attempt.
	EntryFork struct {
		slot.Ref // Ballot is the attempt
		Record   slot.Record
	}
	// EntryCommit holds a certified record, now the tip. Votes and promises for its height are
	// forgotten.
	EntryCommit struct {
		Record      slot.Record
		Certificate slot.Certificate
	}
	// EntryRewind says that the chain above Height is given up for another branch; EntryCommits of
	// that one follow.
	EntryRewind struct{ Height uint64 }
)

func (EntryPromise) isEntry() {}
func (EntryVote) isEntry()    {}
func (EntryOffer) isEntry()   {}
func (EntryFork) isEntry()    {}
func (EntryCommit) isEntry()  {}
func (EntryRewind) isEntry()  {}

// Saved is what a store returns at the start.
type Saved struct {
	Incarnation slot.Incarnation
	Boot        uint64   // rises by one with every opening of the store
	Chain       []Commit // heights 1, 2, … without gap
	Promise     *EntryPromise
	Vote        *EntryVote // the newest vote at the height above the chain, if any
	Fork        *EntryFork // the newest fork signature at the height above the chain, if any
	OfferSeq    uint64
	// the newest EntryPromise, EntryVote and EntryFork of every other place (height, prev) (HOLES
	// H7)
	Elsewhere []Entry
}
