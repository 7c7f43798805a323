package chain

import (
	"fmt"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// Chain holds certified records, from R_0 on without a gap, or from a height where it begins with a
// summary of the older ones (Past). It only grows: records after another fork form another chain.
type Chain struct {
	rules Rules
	records
	state
	recent recent
}

// New makes a chain of R_0 alone, the record that follows from the run spec. If the pin is not
// zero, the chain must contain the record with that hash.
func New(rules Rules, pin slot.Root) *Chain {
	genesis := slot.Genesis(rules.Run)
	hash := genesis.Hash()
	return &Chain{rules, records{
		genesis: genesis, pin: pin, pinned: pin.IsZero() || pin == hash, hashes: []slot.Root{hash},
	}, newState(rules), newRecent(rules)}
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
	b.clip()
	return &b
}

// Rules returns the run spec's values that the chain is checked against.
func (c *Chain) Rules() Rules { return c.rules }

// Branch names the chain: it is the hash of the newest fork record, zero while there is only R_0.
func (c *Chain) Branch() slot.Root { return c.branch }

// LastStep returns the height of the newest step; 0 while there is none.
func (c *Chain) LastStep() uint64 { return c.stepHeight }

// SpentSeq returns the sequence number of the newest contribution of a peer that a record lists; 0:
// none.
func (c *Chain) SpentSeq(p slot.PeerID) uint64 { return c.spent[p].seq }

// Access returns what the records say about the peers that may be members.
func (c *Chain) Access() *Access { return c.access }

// Credit returns what the records say of past contributions.
func (c *Chain) Credit() *Credit { return c.credit }

// Parts returns the parts of the data that a peer was assigned, by slot.
func (c *Chain) Parts(p slot.PeerID) []Part { return c.assigner.parts(p) }

// Founding returns the hash of the record at height 1, or zero while there is none.
func (c *Chain) Founding() slot.Root { return c.founding }

// Members lists the peers that take part in the run: the tip's members, with a seat or without.
func (c *Chain) Members() []slot.Member { return c.Tip().Members }

// Electorate lists the members with a seat: they decide the height above the tip.
func (c *Chain) Electorate() []slot.Member { return c.electors }

// Next returns the position of the record above the tip, at ballot 0.
func (c *Chain) Next() slot.Ref { return slot.Ref{Height: c.Height() + 1, Prev: c.TipHash()} }

// OpenSlot returns the number of the outer step that comes next.
func (c *Chain) OpenSlot() uint64 { return c.Tip().Slot + 1 }

// Ended says that the last step is recorded.
func (c *Chain) Ended() bool { return c.rules.LastSlot > 0 && c.Tip().Slot >= c.rules.LastSlot }

// Closed says that the state root after the last step is certified, too: nothing may follow.
func (c *Chain) Closed() bool { return c.Ended() && c.Tip().Kind == slot.Members }

// Extend verifies a commit as the successor of the tip and appends it; the chain is unchanged on an
// error. The certificate comes first: anybody can make a record that takes seconds to check, and
// only a quorum can certify one.
func (c *Chain) Extend(commit wire.Commit, verify slot.Verifier) error {
	if err := commit.Certificate.Verify(commit.Record, c.Electorate(), c.rules.Quorum, verify); err != nil {
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	if err := c.Check(commit.Record); err != nil {
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
	c.state.follow(c.rules, commit.Record, hash, c.Tip())
	c.recent.follow(commit.Record)
	c.add(commit, hash)
}

// WorkAfter returns the chain's work with one more record: steps add their contributions' weights,
// each up to the caps, and none of those that are empty.
func (c *Chain) WorkAfter(kind slot.Kind, contributions []slot.Offer) uint64 {
	if kind != slot.Step {
		return c.Tip().Work
	}
	return saturatingAdd(c.Tip().Work, c.workOf(contributions))
}

// forkPenalty is how many times the newest step's work a fork costs: a side that forked and then
// decided as many slots as the side that did not has less work, and switches.
const forkPenalty = 3

// WorkOfFork returns the work of a fork of the tip by these members. Like all work it is a pure
// function of the chain (HOLES H28). A fork by the tip's members subtracts. A fork by others, which
// only hold its state, starts from zero: otherwise any stranger could fork the newest record of a
// run, and one slot later its branch would have more work.
func (c *Chain) WorkOfFork(members []slot.Member) uint64 {
	work := c.Tip().Work
	if c.Staying(members) == 0 || work/forkPenalty < c.stepWork {
		return 0
	}
	return work - forkPenalty*c.stepWork
}

// Staying counts the members of a list that are members of the tip, too.
func (c *Chain) Staying(members []slot.Member) (n int) {
	for _, m := range members {
		if _, old := FindMember(c.Members(), m.Peer, m.Incarnation); old {
			n++
		}
	}
	return n
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

// SharedSince says whether a record above a height lists a second member.
func (c *Chain) SharedSince(height uint64) bool { return c.shared > height }

// Listing returns the member that a peer's incarnation becomes in a successor of the tip: its
// seniority lasts while it is listed. Where seats are earned, Settle says the rest.
func (c *Chain) Listing(p slot.PeerID, inc slot.Incarnation) slot.Member {
	m := slot.Member{Peer: p, Incarnation: inc, Since: c.Height() + 1}
	if e, ok := c.entry(m); ok {
		return e
	}
	if !c.rules.Byzantine {
		m.Seat = m.Since
	}
	return m
}

// Pace returns the pace by the chain's newest slots.
func (c *Chain) Pace() Pace { return c.recent.pace(c.rules) }
