package chain

import (
	"bytes"
	"cmp"
	"slices"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// Successor is what the choice between the known successors of one record goes by, in a run of
// trust byzantine.
type Successor struct {
	Fork    bool
	Signers int    // of a fork: how many electors of the record before it signed it
	Work    uint64 // of the best chain that goes on from it
	Hash    slot.Root
}

// Before says whether a successor is the one to follow, of two: a certificate before a fork; then
// the fork that more electors signed; then the one with more work below it; then the lower hash.
// Of two certificates the work does not matter, so that all peers that see both choose the same one
// at once.
func (s Successor) Before(o Successor) bool {
	switch {
	case s.Fork != o.Fork:
		return !s.Fork
	case s.Fork && s.Signers != o.Signers:
		return s.Signers > o.Signers
	case s.Fork && s.Work != o.Work:
		return s.Work > o.Work
	}
	return bytes.Compare(s.Hash[:], o.Hash[:]) < 0
}

// Outranks says whether a chain is the one to be on, of it and another one that it parted from.
func (c *Chain) Outranks(o *Chain) bool {
	common := c.CommonHeight(o)
	if common == c.Height() || common == o.Height() {
		return common < c.Height()
	}
	return c.successor(common + 1).Before(o.successor(common + 1))
}

// successor is the record at a height, as its chain goes on from it.
func (c *Chain) successor(height uint64) Successor {
	s := c.known(height).successor()
	s.Work = c.Tip().Work
	return s
}

// AsAgreed says whether those who decide after the record before another one agreed on that one as
// much as on this chain's record there: a certificate is more than a fork, and a fork more than one
// that fewer of them signed. One that none of them signed is not agreed on.
func (c *Chain) AsAgreed(other wire.Commit) bool {
	height := other.Record.Height
	electors, err := c.ElectorsAt(height - 1)
	own, failed := c.Read(height)
	if err != nil || failed != nil {
		return false
	}
	ours, theirs := knownAfter(electors, own, c.Hash(height)), knownAfter(electors, other, slot.Root{})
	if theirs.commit.Record.Kind != slot.Fork || ours.commit.Record.Kind != slot.Fork {
		return theirs.commit.Record.Kind != slot.Fork
	}
	return theirs.signers > 0 && theirs.signers >= ours.signers
}

// MaxSiblingAge is how many heights a chain may have grown since it parted from another branch, for
// the choice between the two to be made without an operator.
const MaxSiblingAge = 64

// These bound what a Tree keeps.
const (
	maxSides     = 16
	maxSideBytes = 64 << 20 // of all records
)

// Tree keeps the branches that a peer knows beside its own chain, and says which one to be on. The
// choice goes down the tree from the record where the branches part, and takes at each record the
// first of its known successors. It follows from the set of known records alone, in whatever order
// they came. Two branches compared by their tips, with no regard to the others, would not do: of
// three such branches each can be better than the next, and peers would move in a circle for ever.
type Tree struct {
	sides []side // the oldest first
}

// side holds the records of one branch above the newest one that it shared with the own chain when
// it was added.
type side struct {
	from    slot.PeerID
	base    uint64
	records []known
	bytes   int
}

// known is a record that was verified.
type known struct {
	commit  wire.Commit
	hash    slot.Root
	signers int // see Successor
}

func (k known) successor() Successor {
	r := k.commit.Record
	return Successor{Fork: r.Kind == slot.Fork, Signers: k.signers, Work: r.Work, Hash: k.hash}
}

func (c *Chain) known(height uint64) known {
	return knownAfter(c.At(height-1).Electors(), c.Commit(height), c.Hash(height))
}

func knownAfter(electors []slot.Member, commit wire.Commit, hash slot.Root) known {
	k := known{commit: commit, hash: hash}
	if k.commit.Record.Kind == slot.Fork {
		k.signers = signersOf(electors, k.commit.Record)
	}
	return k
}

// signersOf counts the electors that signed a fork of the record that they decide after.
func signersOf(electors []slot.Member, fork slot.Record) int {
	return CountMembers(fork.Electors(), func(m slot.Member) bool {
		_, ok := FindMember(electors, m.Peer, m.Incarnation)
		return ok
	})
}

// Choose adds a verified chain that a peer has shown, and returns the chain to be on if that is not
// the own one, with the peer that has shown its newest record. The own chain is added, as shown by
// this peer itself, when it is given up.
func (t *Tree) Choose(own, shown *Chain, by, self slot.PeerID) (better *Chain, from slot.PeerID) {
	t.add(own, shown, by)
	path := t.best(own)
	if len(path) == 0 {
		return nil, ""
	}
	better = own.UpTo(path[0].commit.Record.Height - 1)
	for _, k := range path {
		better.pushHashed(k.commit, k.hash)
	}
	t.add(better, own, self)
	return better, path[len(path)-1].from
}

// add keeps the records of a chain that the own one lacks.
func (t *Tree) add(own, c *Chain, from slot.PeerID) {
	s := side{from: from, base: own.CommonHeight(c)}
	for h := s.base + 1; h <= c.Height(); h++ {
		s.records = append(s.records, c.known(h))
		s.bytes += len(c.Commit(h).Append(nil))
	}
	// a branch that has grown takes the place of what was known of it
	t.sides = slices.DeleteFunc(t.sides, func(o side) bool {
		last := o.records[len(o.records)-1]
		return c.Has(last.commit.Record.Height, last.hash)
	})
	if len(s.records) > 0 {
		t.sides = append(t.sides, s)
	}
	t.prune(own)
}

// prune forgets the branches that parted too long ago to be chosen, and the oldest ones above the
// bounds. The newest branch stays.
func (t *Tree) prune(own *Chain) {
	bytes := 0
	for _, s := range t.sides {
		bytes += s.bytes
	}
	for len(t.sides) > 1 && (len(t.sides) > maxSides || bytes > maxSideBytes) {
		bytes -= t.sides[0].bytes
		t.sides = slices.Delete(t.sides, 0, 1)
	}
	t.sides = slices.DeleteFunc(t.sides, func(s side) bool {
		return s.base+MaxSiblingAge < own.Height()
	})
}

// place is a known record in the tree.
type place struct {
	known
	from slot.PeerID
	own  bool // it is on the own chain
}

// best goes down the tree, and returns the records on the way that the own chain lacks: none if the
// way ends at the own tip.
func (t *Tree) best(own *Chain) (path []place) {
	base := own.Height()
	for _, s := range t.sides {
		base = min(base, s.base)
	}
	places := t.places(own, base)
	first := firstSuccessors(places)
	for at := own.Hash(base); ; {
		next, ok := first[at]
		if !ok {
			return path
		}
		at = next.Hash
		if p := places[at]; !p.own {
			path = append(path, p)
		}
	}
}

// places gathers the known records above a height by their hashes.
func (t *Tree) places(own *Chain, base uint64) map[slot.Root]place {
	all := map[slot.Root]place{}
	for _, s := range t.sides {
		for _, k := range s.records {
			all[k.hash] = place{known: k, from: s.from}
		}
	}
	for h := base + 1; h <= own.Height(); h++ {
		k := own.known(h)
		all[k.hash] = place{known: k, own: true}
	}
	return all
}

// firstSuccessors finds the successor to follow of each known record that has any, by the record's
// hash. It begins with the highest records, so that the work of the best chain below each one is
// known when that one is compared.
func firstSuccessors(places map[slot.Root]place) map[slot.Root]Successor {
	order := make([]place, 0, len(places))
	for _, p := range places {
		order = append(order, p)
	}
	slices.SortFunc(order, func(a, b place) int {
		return cmp.Compare(b.commit.Record.Height, a.commit.Record.Height)
	})
	first := make(map[slot.Root]Successor, len(places))
	for _, p := range order {
		s, prev := p.successor(), p.commit.Record.Prev
		if below, ok := first[p.hash]; ok {
			s.Work = below.Work
		}
		if best, ok := first[prev]; !ok || s.Before(best) {
			first[prev] = s
		}
	}
	return first
}
