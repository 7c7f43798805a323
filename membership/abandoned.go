package membership

import (
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/chain"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// abandoned remembers the end of a chain whose state died with its holders. The peers that are left
// know its certificates, but cannot get its outcomes. No quorum of its members is left then (I3),
// and nobody can fork its tip, for want of the state there. So they go back to the newest record
// whose state one of them holds, and fork that, by the rules of all forks. The records that they
// give up stay decided (keepDecided). They are taken back only when a peer shows their state, or
// has gone on from it. A run whose last slot is known to be decided is not begun again: other peers
// have its model, see exit.watchHolders.
type abandoned struct {
	*facts
	above uint64       // records of the chain above this height
	given *chain.Chain // nil: none
}

// has says whether a record was given up because nobody holds what it led to.
func (b *abandoned) has(height uint64, hash slot.Root) bool {
	return b.given != nil && height > b.above && b.given.Has(height, hash)
}

// shows says whether an ALIVE is about nothing more than what was given up, without its
// state.
func (b *abandoned) shows(a wire.Alive) bool {
	return b.has(a.Height, a.Tip) && (!a.Synced || a.Applied <= b.above)
}
