package chain

import (
	"bytes"
	"cmp"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// MaxSiblingAge is how many heights a chain may have grown since it parted from another branch, for
// the choice between the two to be made without an operator.
const MaxSiblingAge = 64

// Better says whether a chain is the one to be on, of it and another one of the run. It is a pure
// function of the two chains and a total order, so peers that know the same chains are on the same
// one, in whatever order these came (HOLES H28). A longer chain is better than its own beginning.
// Else the first records that differ count, and never the tips' hashes, which change with every
// record, so that two peers could change places for ever:
//
//   - where members may lie, a certificate comes before a fork, and the fork that more of the old
//     electors signed before one that fewer did. Work does not count: liars can make up any. Of two
//     foundings, which nobody decides on, the one whose chain has had a second member comes first:
//     else a peer that founded the run alone, beside a large one, would never come to that;
//   - where they only crash, the chain that ends the run, then the one with more work;
//   - then the lower hash of those records.
func (c *Chain) Better(o *Chain) bool {
	common := c.CommonHeight(o)
	if common == c.Height() || common == o.Height() {
		return common < c.Height()
	}
	order := 0
	switch {
	case !c.rules.Byzantine:
		order = cmp.Or(compareBools(c.EndsTheRun(), o.EndsTheRun()), cmp.Compare(c.Tip().Work, o.Tip().Work))
	case common == 0:
		order = compareBools(c.SharedSince(0), o.SharedSince(0))
	default:
		ours, failed := c.Read(common + 1)
		theirs, err := o.Read(common + 1)
		if failed != nil || err != nil {
			return false // the disk fails: the store says so
		}
		order = c.agreed(ours, theirs)
	}
	a, b := c.Hash(common+1), o.Hash(common+1)
	return cmp.Or(order, bytes.Compare(b[:], a[:])) > 0
}

func compareBools(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

// EndsTheRun says whether a chain certifies the last state of the run as all know it.
func (pos *position) EndsTheRun() bool { return pos.Closed() && len(pos.provisional) == 0 }

// AsAgreed says whether those who decide after the record before another one agreed on that one as
// much as on this chain's record there. One that none of them signed is not agreed on.
func (c *Chain) AsAgreed(other wire.Commit) bool {
	own, err := c.Read(other.Record.Height)
	return err == nil && c.agreed(other, own) >= 0 &&
		(other.Record.Kind != slot.Fork || c.signers(other.Record) > 0)
}

// agreed compares two records that follow the same one of the chain by how many of its electors
// agreed on them: a certificate is more than a fork, and a fork more than one that fewer signed.
func (c *Chain) agreed(a, b wire.Commit) int {
	if a.Record.Kind != slot.Fork || b.Record.Kind != slot.Fork {
		return compareBools(a.Record.Kind != slot.Fork, b.Record.Kind != slot.Fork)
	}
	return cmp.Compare(c.signers(a.Record), c.signers(b.Record))
}

// signers counts the electors that signed a fork of a record of the chain.
func (c *Chain) signers(fork slot.Record) int {
	electors, err := c.ElectorsAt(fork.Height - 1)
	if err != nil {
		return 0
	}
	return CountMembers(fork.Electors(), func(m slot.Member) bool {
		_, ok := FindMember(electors, m.Peer, m.Incarnation)
		return ok
	})
}
