package chain

import (
	"fmt"
	"slices"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// Chain holds certified records, from R_0 on without a gap, or from a height where it begins with a
// summary of the older ones (Past). It only grows: records after another fork form another chain.
type Chain struct {
	rules   Rules
	pin     slot.Root     // a record that the chain must have; zero: none
	pinned  bool          // the chain has its pin, or needs none
	past    *past         // nil: all records are held
	commits []wire.Commit // of the heights above the floor
	hashes  []slot.Root   // from that of the record at the floor on
	state
}

// New makes a chain of R_0 alone, the record that follows from the run spec. If the pin is not
// zero, the chain must contain the record with that hash.
func New(rules Rules, pin slot.Root) *Chain {
	genesis := slot.Genesis(rules.Run).Hash()
	return &Chain{
		rules: rules, pin: pin, hashes: []slot.Root{genesis}, pinned: pin.IsZero() || pin == genesis,
		state: newState(rules),
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
	b.commits, b.hashes, b.state = slices.Clip(c.commits), slices.Clip(c.hashes), c.state.clone()
	return &b
}

// Commits returns the certified records that are held, from height Floor()+1 on. They must not be
// changed.
func (c *Chain) Commits() []wire.Commit { return c.commits }

// Above returns the certified records above a height, which is not below Floor. They must not be
// changed.
func (c *Chain) Above(height uint64) []wire.Commit { return c.commits[height-c.Floor():] }

// Commit returns the certified record at a height that is held, above 0.
func (c *Chain) Commit(height uint64) wire.Commit { return c.commits[height-c.Floor()-1] }

// Hash returns the hash of the record at a height that the chain has, not below Floor.
func (c *Chain) Hash(height uint64) slot.Root { return c.hashes[height-c.Floor()] }

// Rules returns the run spec's values that the chain is checked against.
func (c *Chain) Rules() Rules { return c.rules }

// Pin returns the hash of a record that the chain must have; zero: none.
func (c *Chain) Pin() slot.Root { return c.pin }

// Pinned says whether the chain has its pin, or needs none.
func (c *Chain) Pinned() bool { return c.pinned }

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

// Height returns the height of the tip; 0 while only R_0 is known.
func (c *Chain) Height() uint64 { return c.Floor() + uint64(len(c.commits)) }

// Tip returns the newest certified record.
func (c *Chain) Tip() slot.Record { return c.At(c.Height()) }

// TipHash returns the hash of the tip.
func (c *Chain) TipHash() slot.Root { return c.hashes[len(c.hashes)-1] }

// At returns the record at a height that is held, or at height 0.
func (c *Chain) At(height uint64) slot.Record {
	if height == 0 {
		return slot.Genesis(c.rules.Run)
	}
	return c.Commit(height).Record
}

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

// StateRoot returns the certified root of the state after a height, which the record above names,
// if that one is held.
func (c *Chain) StateRoot(height uint64) (slot.Root, bool) {
	if !c.Holds(height + 1) {
		return slot.Root{}, false
	}
	return c.At(height + 1).StateRoot, true
}

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
	c.commits = append(c.commits, commit)
	c.hashes = append(c.hashes, hash)
	c.pinned = c.pinned || hash == c.pin
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

// Has says whether the chain is known to have a record at a height.
func (c *Chain) Has(height uint64, hash slot.Root) bool {
	switch {
	case height > c.Height():
		return false
	case height >= c.Floor():
		return c.Hash(height) == hash
	}
	return c.past.links[height] == hash
}

// CommonHeight returns the height of the newest record that two chains of one run are known to
// share. Meets says whether both hold it.
func (c *Chain) CommonHeight(o *Chain) uint64 {
	h, least := min(c.Height(), o.Height()), max(c.Floor(), o.Floor())
	for ; h >= least; h-- {
		if c.Hash(h) == o.Hash(h) {
			return h
		}
		if h == 0 {
			break
		}
	}
	return c.commonLink(o)
}

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
func (c *Chain) Pace() Pace {
	keep := paceWindow + int(c.rules.MaxStaleness) + 2 // bases are so many slots back
	var records []slot.Record
	for h := c.Height(); h > 0 && len(records) < keep; h-- {
		if r := c.At(h); r.Kind == slot.Step {
			records = append(records, r)
		}
	}
	slices.Reverse(records)
	return Pace{c.rules.Pace, records}
}
