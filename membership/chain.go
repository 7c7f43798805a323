package membership

import (
	"fmt"
	"math"
	"slices"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// chain is certified records, from R_0 on without a gap. It only grows: what follows another fork is another chain.
type chain struct {
	rules      Rules
	pin        slot.Root   // a record that the chain must have; zero: none
	commits    []Commit    // heights 1, 2, …
	hashes     []slot.Root // by height; hashes[0] is that of R_0
	spent      map[slot.PeerID]spending
	branch     slot.Root // hash of the newest fork record: it names the chain. Zero while there is only R_0
	stepWork   uint64    // what the newest step added to the work: the measure of a fork's penalty
	stepHeight uint64    // of the newest step; 0 while there is none
	pinned     bool      // it has the pin, or needs none
	deal       *dealer
	access     access
	credit     *credit
}

// spending is the newest contribution of a peer that a record lists.
type spending struct{ seq, slot uint64 }

func newChain(rules Rules, pin slot.Root) *chain {
	genesis := slot.Genesis(rules.Run).Hash()
	return &chain{
		rules: rules, pin: pin, hashes: []slot.Root{genesis}, spent: map[slot.PeerID]spending{}, pinned: pin.IsZero() || pin == genesis,
		deal: newDealer(rules), access: newAccess(), credit: newCredit(rules),
	}
}

// upTo is a chain of its own with the records up to a height.
func (c *chain) upTo(height uint64) *chain {
	b := newChain(c.rules, c.pin)
	for i, commit := range c.commits[:height] {
		b.pushHashed(commit, c.hashes[i+1])
	}
	return b
}

// height of the tip; 0 while only R_0 is known.
func (c *chain) height() uint64 { return uint64(len(c.commits)) }

// tip is the newest certified record.
func (c *chain) tip() slot.Record { return c.at(c.height()) }

func (c *chain) tipHash() slot.Root { return c.hashes[c.height()] }

// at is the record at a height that the chain has.
func (c *chain) at(height uint64) slot.Record {
	if height == 0 {
		return slot.Genesis(c.rules.Run)
	}
	return c.commits[height-1].Record
}

// founding is the hash of the record at height 1. Zero while there is none.
func (c *chain) founding() slot.Root {
	if c.height() == 0 {
		return slot.Root{}
	}
	return c.hashes[1]
}

// electorate is who decides the height above the tip.
func (c *chain) electorate() []slot.Member { return c.tip().Members }

// next is the place of the record above the tip, at ballot 0.
func (c *chain) next() slot.Ref { return slot.Ref{Height: c.height() + 1, Prev: c.tipHash()} }

// openSlot is the outer step that comes next.
func (c *chain) openSlot() uint64 { return c.tip().Slot + 1 }

// stateRoot is the certified root of the state after a height: the record above names it.
func (c *chain) stateRoot(height uint64) (slot.Root, bool) {
	if height >= c.height() {
		return slot.Root{}, false
	}
	return c.commits[height].Record.StateRoot, true
}

// ended says that the last step is recorded; closed, that its state root is certified too and nothing may follow.
func (c *chain) ended() bool { return c.rules.LastSlot > 0 && c.tip().Slot >= c.rules.LastSlot }

func (c *chain) closed() bool { return c.ended() && c.tip().Kind == slot.Members }

// extend verifies a commit as the successor of the tip and appends it; the chain is unchanged on an error.
func (c *chain) extend(commit Commit, verify slot.Verifier) error {
	if err := c.check(commit.Record); err != nil {
		return err
	}
	if err := commit.Certificate.Verify(commit.Record, c.electorate(), verify); err != nil {
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	if err := c.verifyOrders(commit.Record, verify); err != nil {
		return err
	}
	c.push(commit)
	return nil
}

// push appends a commit that was verified before.
func (c *chain) push(commit Commit) { c.pushHashed(commit, commit.Record.Hash()) }

func (c *chain) pushHashed(commit Commit, hash slot.Root) {
	r := commit.Record
	switch r.Kind {
	case slot.Fork:
		c.branch = hash
	case slot.Step:
		c.stepWork, c.stepHeight = r.Work-c.tip().Work, r.Height
	case slot.Members, slot.Access:
	}
	c.pinned = c.pinned || hash == c.pin
	c.credit.follow(r, c.electorate())
	c.commits = append(c.commits, commit)
	c.hashes = append(c.hashes, hash)
	for _, o := range r.Contributions {
		c.spent[o.Peer] = spending{o.Seq, r.Slot}
	}
	c.access.follow(r, hash)
	c.deal.follow(r, func(p slot.PeerID) uint64 { return c.spent[p].slot })
	// What is forgotten cannot come back: an offer names its slot, and peers long gone would fill the map.
	for p, s := range c.spent {
		if slot.Find(r.Members, p) < 0 && s.slot+c.rules.MaxStaleness < r.Slot {
			delete(c.spent, p)
		}
	}
}

// workAfter is the chain's work with one more record: steps add their contributions' weights, each up to the cap.
func (c *chain) workAfter(kind slot.Kind, contributions []slot.Offer) uint64 {
	work := c.tip().Work
	if kind != slot.Step {
		return work
	}
	for _, o := range contributions {
		w := o.Weight
		if c.rules.MaxWeight > 0 {
			w = min(w, c.rules.MaxWeight)
		}
		if work > math.MaxUint64-w {
			return math.MaxUint64
		}
		work += w
	}
	return work
}

// forkPenalty is how many times the newest step's work a fork costs: a side that forked and then decided as many slots as the
// side that did not has less work, and moves.
const forkPenalty = 3

// workOfFork is the work of a fork of the tip by these members. A pure function of the chain, like all work (HOLES H28): a fork
// by the tip's members subtracts; one by others, who only hold its state, starts from nothing, or any stranger could fork the
// newest record of a run and be a slot away from outdoing it.
func (c *chain) workOfFork(members []slot.Member) uint64 {
	work := c.tip().Work
	if c.stays(members) == 0 || work/forkPenalty < c.stepWork {
		return 0
	}
	return work - forkPenalty*c.stepWork
}

// stays counts those of a list that are members of the tip.
func (c *chain) stays(members []slot.Member) (n int) {
	for _, m := range members {
		if _, old := findMember(c.electorate(), m.Peer, m.Incarnation); old {
			n++
		}
	}
	return n
}

// has says whether a record is part of the chain at a height.
func (c *chain) has(height uint64, hash slot.Root) bool {
	return height <= c.height() && c.hashes[height] == hash
}

// meets is the height of the newest record that two chains of one run share.
func (c *chain) meets(o *chain) uint64 {
	h := min(c.height(), o.height())
	for c.hashes[h] != o.hashes[h] {
		h--
	}
	return h
}

// sharedSince says whether a record above a height lists a second member.
func (c *chain) sharedSince(height uint64) bool {
	return slices.ContainsFunc(c.commits[height:], func(k Commit) bool { return len(k.Record.Members) > 1 })
}

// listed is the member that a peer's incarnation is in a successor of the tip: seniority lasts while it is listed.
func (c *chain) listed(p slot.PeerID, inc slot.Incarnation) slot.Member {
	if m, ok := findMember(c.electorate(), p, inc); ok {
		return m
	}
	return slot.Member{Peer: p, Incarnation: inc, Since: c.height() + 1}
}

// findMember finds a peer in this very incarnation: who lost the vote log is somebody else (HOLES H6).
func findMember(members []slot.Member, p slot.PeerID, inc slot.Incarnation) (slot.Member, bool) {
	if i := slot.Find(members, p); i >= 0 && members[i].Incarnation == inc {
		return members[i], true
	}
	return slot.Member{}, false
}
