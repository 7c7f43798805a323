package membership

import (
	"fmt"
	"math"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// chain is certified records, from R_0 on without a gap. It only grows: another founding's records are another chain.
type chain struct {
	rules   Rules
	commits []Commit    // heights 1, 2, …
	hashes  []slot.Root // by height; hashes[0] is that of R_0
	spent   map[slot.PeerID]spending
	solo    bool // no record ever listed a second member
}

// spending is the newest contribution of a peer that a record lists.
type spending struct{ seq, slot uint64 }

func newChain(rules Rules) *chain {
	return &chain{
		rules: rules, hashes: []slot.Root{slot.Genesis(rules.Run).Hash()}, spent: map[slot.PeerID]spending{}, solo: true,
	}
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

// founding is the hash of the record at height 1: it names the chain. Zero while there is none.
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
	c.push(commit)
	return nil
}

// push appends a commit that was verified before.
func (c *chain) push(commit Commit) {
	r := commit.Record
	c.commits = append(c.commits, commit)
	c.hashes = append(c.hashes, r.Hash())
	c.solo = c.solo && len(r.Members) == 1
	for _, o := range r.Contributions {
		c.spent[o.Peer] = spending{o.Seq, r.Slot}
	}
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
