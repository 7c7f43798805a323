package wire

import "slices"

// KeptGrounds are the promises of drafts that a peer took, the oldest first. An elector that voted
// for a record, and hid that in a promise for a higher ballot, has helped another record at the
// same height. Both certificates are signed, and the promises are what convicts it. So they are
// kept when the height is decided, and for GroundsSpan heights more. The store and the machine keep
// the same ones, by the functions here.
type KeptGrounds []EntryGrounds

// GroundsSpan is how many heights longer than their own grounds are kept.
const GroundsSpan = 64

// These bound what is kept. At one position the grounds of the lowest ballot make room, among all
// the oldest ones.
const (
	maxGroundsAt    = 16
	maxGrounds      = 512
	maxGroundsBytes = 8 << 20
)

// Add returns the kept grounds with those of one more draft, in the place of others of its ballot.
func (k KeptGrounds) Add(e EntryGrounds) KeptGrounds {
	k = slices.DeleteFunc(slices.Clone(k), func(o EntryGrounds) bool { return o.Ref == e.Ref })
	k = append(k, e)
	if at := k.At(Position{e.Height, e.Prev}); len(at) > maxGroundsAt {
		lowest := slices.MinFunc(at, func(a, b EntryGrounds) int { return int(a.Ballot) - int(b.Ballot) })
		k = slices.DeleteFunc(k, func(o EntryGrounds) bool { return o.Ref == lowest.Ref })
	}
	bytes, drop := 0, 0
	for _, o := range k {
		bytes += o.size()
	}
	for ; len(k)-drop > maxGrounds || bytes > maxGroundsBytes; drop++ {
		bytes -= k[drop].size()
	}
	return k[drop:]
}

// size returns about how many bytes the grounds take.
func (e EntryGrounds) size() (n int) {
	for _, p := range e.Promises {
		n += 64 + len(p.Peer) + len(p.Sig)
	}
	return n
}

// Prune returns those that are kept once the chain has reached a height.
func (k KeptGrounds) Prune(height uint64) KeptGrounds {
	old := func(e EntryGrounds) bool { return e.Height+GroundsSpan < height }
	if !slices.ContainsFunc(k, old) {
		return k
	}
	if k = slices.DeleteFunc(slices.Clone(k), old); len(k) == 0 {
		return nil
	}
	return k
}

// At returns those of the drafts at a position.
func (k KeptGrounds) At(at Position) (found []EntryGrounds) {
	for _, e := range k {
		if e.Height == at.Height && e.Prev == at.Prev {
			found = append(found, e)
		}
	}
	return found
}
