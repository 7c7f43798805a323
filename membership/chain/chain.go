package chain

import (
	"fmt"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// Chain holds certified records, from R_0 on without a gap, or from a height where it begins with a
// summary of the older ones (Past). It only grows: records after another fork form another chain.
type Chain struct {
	records
	position
}

// New makes a chain of R_0 alone, the record that follows from the run spec. If the pin is not
// zero, the chain must contain the record with that hash.
func New(rules Rules, pin slot.Root) *Chain {
	genesis := slot.Genesis(rules.Run)
	hash := genesis.Hash()
	return &Chain{
		records{genesis: genesis, pin: pin, pinned: pin.IsZero() || pin == hash, hashes: []slot.Root{hash}},
		position{rules, genesis, hash, newState(rules), newRecent(rules)},
	}
}

// UpTo returns a new chain with the records up to a height, which is not below Start.
func (c *Chain) UpTo(height uint64) *Chain {
	if height == c.Height() {
		return c.clone()
	}
	b := c.beginning()
	for h := b.Height() + 1; h <= height; h++ {
		b.pushHashed(c.Commit(h), c.Hash(h))
	}
	return b
}

// clone returns a new chain with the same records.
func (c *Chain) clone() *Chain {
	b := *c
	b.state = c.state.clone()
	b.records.clip()
	b.recent.clip()
	return &b
}

// Extend verifies a commit as the successor of the tip and appends it; the chain is unchanged on an
// error. The certificate comes first: anybody can make a record that takes seconds to check, and
// only a quorum can certify one.
func (c *Chain) Extend(commit wire.Commit, verify slot.Verifier) error {
	if err := commit.Certificate.Verify(commit.Record, c.Electorate(), c.rules.Quorum, verify); err != nil {
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	if err := c.Check(commit.Record, commit.Certificate.Ballot); err != nil {
		return err
	}
	if err := c.VerifyMotions(commit.Record, verify); err != nil {
		return err
	}
	c.Push(commit)
	return nil
}

// Push appends a commit that was verified before.
func (c *Chain) Push(commit wire.Commit) { c.pushHashed(commit, commit.Record.Hash()) }

func (c *Chain) pushHashed(commit wire.Commit, hash slot.Root) {
	c.add(commit, hash)
	c.position.follow(commit.Record, hash)
}

// CommonHeight returns the height of the newest record that two chains of one run are known to
// share. Meets says whether both hold it.
func (c *Chain) CommonHeight(o *Chain) uint64 { return c.commonHeight(&o.records) }

// Meets says whether both chains hold the newest record that they share, and can be taken back to
// it.
func (c *Chain) Meets(o *Chain) bool { return c.meets(&o.records) }

// GoesOn says whether a chain goes on from this one, whose tip it may not hold any more: it has all
// links of this one, and no other ones up to its tip.
func (c *Chain) GoesOn(o *Chain) bool { return c.goesOn(&o.records) }

// BeginsWith says whether another chain ends below this one's tip, and has no record that is known
// to be another one: it is a beginning of this chain, which may have forgotten the records there.
func (c *Chain) BeginsWith(o *Chain) bool {
	return o.Height() <= c.Height() && !c.partedBy(&o.records)
}
