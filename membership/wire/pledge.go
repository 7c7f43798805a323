package wire

import (
	"bytes"
	"cmp"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// Position says which decision a promise, a vote or a fork signature is about. Votes are keyed by
// the record before, too: a vote of one chain means nothing on another one, and is kept there
// (HOLES H7).
type Position struct {
	Height uint64
	Prev   slot.Root
}

// Compare orders positions by height, then by the hash of the record before.
func (p Position) Compare(o Position) int {
	return cmp.Or(cmp.Compare(p.Height, o.Height), bytes.Compare(p.Prev[:], o.Prev[:]))
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
