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
