package wire

import "github.com/p2pdiloco/p2pdiloco/internal/slot"

// Entry is one thing that must be on disk before the messages and work of the same Ready go out
// (DESIGN 4, on disk before).
type Entry interface{ isEntry() }

type (
	// EntryPromise says that this peer gives neither HAVE nor VOTE below this ballot at this height
	// any more.
	EntryPromise struct{ slot.Ref }
	// EntryHave holds the first vote, and the record that it is for. A leader's draft is its own
	// first vote.
	EntryHave struct {
		slot.Ref
		Drafted // Attached, Owners and Grounds only of this peer's own draft
	}
	// EntryVote holds the vote, which is this peer's lock: the record, and the QC that the vote was
	// given for.
	EntryVote struct {
		slot.Ref
		Locked
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
	// EntryDecided holds a record that was certified at its position, on a branch that this peer
	// has left. It binds as much as the votes that it has taken the place of.
	EntryDecided struct {
		Record      slot.Record
		Certificate slot.Certificate
	}
	// EntryRewind says that the chain above Height is given up for another branch. EntryDecided of
	// what it had certified there follow, and EntryCommits of the other branch.
	EntryRewind struct{ Height uint64 }
)

func (EntryPromise) isEntry() {}
func (EntryHave) isEntry()    {}
func (EntryVote) isEntry()    {}
func (EntryDecided) isEntry() {}
func (EntryOffer) isEntry()   {}
func (EntryFork) isEntry()    {}
func (EntryCommit) isEntry()  {}
func (EntryRewind) isEntry()  {}

// Saved is what a store returns at the start.
type Saved struct {
	Incarnation slot.Incarnation
	Boot        uint64    // rises by one with every opening of the store
	Height      uint64    // of the chain's newest record
	Tip         slot.Root // its hash
	Pledge                // at the height above
	OfferSeq    uint64
	Elsewhere   map[Position]Pledge // at every other position (HOLES H7)
}

// Records gives the certified records of a chain that are on disk.
type Records interface {
	// Record returns the record at a height, from 1 on.
	Record(height uint64) (Commit, error)
}

// Pledge is what one peer has signed at one position: the newest of each kind.
type Pledge struct {
	Promise *EntryPromise
	Have    *EntryHave
	Vote    *EntryVote
	Fork    *EntryFork
	// a record that was certified here, on a branch that this peer has left
	Decided *EntryDecided
}

// Floor returns the ballot below which this peer gives neither HAVE nor VOTE any more. Both promise
// as much as a PROMISE does.
func (w Pledge) Floor() uint32 {
	b := uint32(0)
	if w.Promise != nil {
		b = w.Promise.Ballot
	}
	if w.Have != nil {
		b = max(b, w.Have.Ballot)
	}
	if w.Vote != nil {
		b = max(b, w.Vote.Ballot)
	}
	return b
}
