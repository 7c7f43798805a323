package chain

import (
	"fmt"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// Chain holds the certified records of a run, from R_0 on without a gap: the newest in memory, the
// others on disk. It only grows: records after another fork form another chain.
type Chain struct {
	records
	position
	base position // of the record at the floor: where the chain can be taken back to from memory
}

// New makes a chain of R_0 alone, the record that follows from the run spec. If the pin is not
// zero, the chain must contain the record with that hash.
func New(rules Rules, pin slot.Root) *Chain {
	genesis := slot.Genesis(rules.Run)
	hash := genesis.Hash()
	begin := func() position { return position{rules, genesis, hash, newState(rules), newRecent(rules)} }
	return &Chain{
		records{ground: genesis, pin: pin, pinned: pin.IsZero() || pin == hash, index: []indexed{{hash: hash}}},
		begin(), begin(),
	}
}

// Resume makes the chain whose records up to a height are on disk. It verifies nothing: this peer
// has done so before they got there.
func Resume(rules Rules, pin slot.Root, disk wire.Records, height uint64) (*Chain, error) {
	c := New(rules, pin)
	c.disk = disk
	for h := uint64(1); h <= height; h++ {
		commit, err := disk.Record(h)
		if err != nil {
			return nil, err
		}
		if h+HeldRecords > height {
			c.Push(commit)
			continue
		}
		hash := commit.Record.Hash()
		c.note(commit.Record, hash)
		c.position.follow(commit.Record, hash)
		if h+HeldRecords == height {
			c.floor, c.ground, c.base = h, commit.Record, c.position.clone()
		}
	}
	return c, nil
}

// UpTo returns a new chain with the records up to a height, which is not below Floor.
func (c *Chain) UpTo(height uint64) *Chain {
	b := &Chain{c.records.upTo(height), c.base.clone(), c.base.clone()}
	if height == c.Height() {
		b.position = c.position.clone()
		return b
	}
	for h := c.floor + 1; h <= height; h++ {
		b.position.follow(c.At(h), c.Hash(h))
	}
	return b
}

// Reread returns a new chain with the records up to any height. It reads those that are not held
// from disk.
func (c *Chain) Reread(height uint64) (*Chain, error) {
	if height >= c.floor {
		return c.UpTo(height), nil
	}
	b, err := Resume(c.rules, c.pin, reader{c}, height)
	if err == nil {
		b.disk = c.disk
	}
	return b, err
}

// reader reads a chain.
type reader struct{ *Chain }

// Record implements wire.Records.
func (r reader) Record(height uint64) (wire.Commit, error) { return r.Read(height) }

// Release leaves to the disk the records that are there, up to a height, but the newest ones.
func (c *Chain) Release(saved uint64) {
	for c.floor < saved && c.floor+HeldRecords < c.Height() {
		c.base.follow(c.commits[0].Record, c.Hash(c.floor+1))
		c.floor, c.ground, c.commits = c.floor+1, c.commits[0].Record, c.commits[1:]
	}
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
func (c *Chain) Push(commit wire.Commit) {
	hash := commit.Record.Hash()
	c.add(commit, hash)
	c.position.follow(commit.Record, hash)
}
