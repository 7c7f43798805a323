package chain

import (
	"fmt"
	"maps"
	"slices"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// Chain holds certified records, from R_0 on without a gap. It only grows: records after another
// fork form another chain.
type Chain struct {
	rules   Rules
	pin     slot.Root     // a record that the chain must have; zero: none
	commits []wire.Commit // heights 1, 2, …
	hashes  []slot.Root   // by height; hashes[0] is that of R_0
	spent   map[slot.PeerID]spending
	// hash of the newest fork record: it names the chain. Zero while there is only R_0
	branch     slot.Root
	stepWork   uint64 // what the newest step added to the work: the measure of a fork's penalty
	stepHeight uint64 // of the newest step; 0 while there is none
	pinned     bool   // the chain has its pin, or needs none
	assigner   *assigner
	access     *Access
	credit     *Credit
	electors   []slot.Member // of the tip
	// forks that fewer than a quorum made, the oldest first; never changed in place
	provisional []Provisional
	seating     seating
}

// spending is the newest contribution of a peer that a record lists.
type spending struct{ seq, slot uint64 }

// New makes a chain of R_0 alone, the record that follows from the run spec. If the pin is not
// zero, the chain must contain the record with that hash.
func New(rules Rules, pin slot.Root) *Chain {
	genesis := slot.Genesis(rules.Run).Hash()
	return &Chain{
		rules: rules, pin: pin, hashes: []slot.Root{genesis}, spent: map[slot.PeerID]spending{}, pinned: pin.IsZero() ||
			pin == genesis,
		assigner: newAssigner(rules), access: newAccess(), credit: newCredit(rules),
	}
}

// UpTo returns a new chain with the records up to a height.
func (c *Chain) UpTo(height uint64) *Chain {
	if height == c.Height() {
		return c.clone()
	}
	b := New(c.rules, c.pin)
	for i, commit := range c.commits[:height] {
		b.pushHashed(commit, c.hashes[i+1])
	}
	return b
}

// clone returns a new chain with the same records.
func (c *Chain) clone() *Chain {
	b := *c
	b.commits, b.hashes, b.spent = slices.Clip(c.commits), slices.Clip(c.hashes), maps.Clone(c.spent)
	b.assigner, b.access, b.credit = c.assigner.clone(), c.access.clone(), c.credit.clone()
	return &b
}

// Commits returns the certified records from height 1 on. They must not be changed.
func (c *Chain) Commits() []wire.Commit { return c.commits }

// Hash returns the hash of the record at a height that the chain has.
func (c *Chain) Hash(height uint64) slot.Root { return c.hashes[height] }

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
func (c *Chain) Height() uint64 { return uint64(len(c.commits)) }

// Tip returns the newest certified record.
func (c *Chain) Tip() slot.Record { return c.At(c.Height()) }

// TipHash returns the hash of the tip.
func (c *Chain) TipHash() slot.Root { return c.hashes[c.Height()] }

// At returns the record at a height that the chain has.
func (c *Chain) At(height uint64) slot.Record {
	if height == 0 {
		return slot.Genesis(c.rules.Run)
	}
	return c.commits[height-1].Record
}

// Founding returns the hash of the record at height 1, or zero while there is none.
func (c *Chain) Founding() slot.Root {
	if c.Height() == 0 {
		return slot.Root{}
	}
	return c.hashes[1]
}

// Members lists the peers that take part in the run: the tip's members, with a seat or without.
func (c *Chain) Members() []slot.Member { return c.Tip().Members }

// Electorate lists the members with a seat: they decide the height above the tip.
func (c *Chain) Electorate() []slot.Member { return c.electors }

// Next returns the position of the record above the tip, at ballot 0.
func (c *Chain) Next() slot.Ref { return slot.Ref{Height: c.Height() + 1, Prev: c.TipHash()} }

// OpenSlot returns the number of the outer step that comes next.
func (c *Chain) OpenSlot() uint64 { return c.Tip().Slot + 1 }

// StateRoot returns the certified root of the state after a height, which the record above names.
func (c *Chain) StateRoot(height uint64) (slot.Root, bool) {
	if height >= c.Height() {
		return slot.Root{}, false
	}
	return c.commits[height].Record.StateRoot, true
}

// Ended says that the last step is recorded.
func (c *Chain) Ended() bool { return c.rules.LastSlot > 0 && c.Tip().Slot >= c.rules.LastSlot }

// Closed says that the state root after the last step is certified, too: nothing may follow.
func (c *Chain) Closed() bool { return c.Ended() && c.Tip().Kind == slot.Members }

// Extend verifies a commit as the successor of the tip and appends it; the chain is unchanged on an
// error.
func (c *Chain) Extend(commit wire.Commit, verify slot.Verifier) error {
	if err := c.Check(commit.Record); err != nil {
		return err
	}
	if err := commit.Certificate.Verify(commit.Record, c.Electorate(), c.rules.Quorum, verify); err != nil {
		return fmt.Errorf("%w: %w", ErrInvalid, err)
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
	r := commit.Record
	switch r.Kind {
	case slot.Fork:
		c.branch = hash
	case slot.Step:
		c.stepWork, c.stepHeight = r.Work-c.Tip().Work, r.Height
	case slot.Members, slot.Access:
	}
	c.pinned = c.pinned || hash == c.pin
	c.provisional = c.stillProvisional(r)
	c.credit.follow(r, c.Members())
	c.seating = c.seating.follow(r, c.Electorate(), c.rules.StartPeers)
	c.electors = r.Electors()
	c.commits = append(c.commits, commit)
	c.hashes = append(c.hashes, hash)
	for _, o := range r.Contributions {
		c.spent[o.Peer] = spending{o.Seq, r.Slot}
	}
	c.access.follow(r, hash)
	c.assigner.follow(r, func(p slot.PeerID) uint64 { return c.spent[p].slot })
	// Entries of peers long gone would fill the map. Their old offers cannot come back, because an
	// offer names its slot.
	for p, s := range c.spent {
		if slot.Find(r.Members, p) < 0 && s.slot+c.rules.MaxStaleness < r.Slot {
			delete(c.spent, p)
		}
	}
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

// Has says whether the chain has a record at a height.
func (c *Chain) Has(height uint64, hash slot.Root) bool {
	return height <= c.Height() && c.hashes[height] == hash
}

// CommonHeight returns the height of the newest record that two chains of one run share.
func (c *Chain) CommonHeight(o *Chain) uint64 {
	h := min(c.Height(), o.Height())
	for c.hashes[h] != o.hashes[h] {
		h--
	}
	return h
}

// SharedSince says whether a record above a height lists a second member.
func (c *Chain) SharedSince(height uint64) bool {
	return slices.ContainsFunc(c.commits[height:], func(k wire.Commit) bool { return len(k.Record.Members) > 1 })
}

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

// FindMember finds a peer in this very incarnation: a peer that lost the vote log is another member
// (HOLES H6).
func FindMember(members []slot.Member, p slot.PeerID, inc slot.Incarnation) (slot.Member, bool) {
	if i := slot.Find(members, p); i >= 0 && members[i].Incarnation == inc {
		return members[i], true
	}
	return slot.Member{}, false
}

// CountMembers counts the members for which in holds.
func CountMembers(members []slot.Member, in func(slot.Member) bool) (n int) {
	for _, e := range members {
		if in(e) {
			n++
		}
	}
	return n
}
