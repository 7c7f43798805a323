package chain

import (
	"fmt"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// verifiedLinks is what the links of a past say about the records that are not held.
type verifiedLinks struct {
	all              linked
	founding, branch slot.Root
	forks            []Provisional // all, the oldest first
	changes          []change
}

// change says who decides above a height, up to that of the next one.
type change struct {
	height   uint64
	electors []slot.Member
}

// at returns the electors of the record at a height.
func (v verifiedLinks) at(height uint64) (electors []slot.Member) {
	for _, e := range v.changes {
		if e.height > height {
			break
		}
		electors = e.electors
	}
	return electors
}

// forked says whether forks that a summary says are provisional are forks of the links.
func (v verifiedLinks) forked(provisional []Provisional) bool {
	i := 0
	for _, f := range v.forks {
		if i < len(provisional) && provisional[i].Height == f.Height {
			if provisional[i].Few != f.Few || !sameElectors(provisional[i].Electors, f.Electors) {
				return false
			}
			i++
		}
	}
	return i == len(provisional)
}

// FoundingOf returns the hash of the founding that a past states, or zero. It verifies nothing.
func FoundingOf(p wire.Past) slot.Root {
	if len(p.Links) == 0 {
		return slot.Root{}
	}
	l, err := wire.ParseLink(p.Links[0])
	if err != nil {
		return slot.Root{}
	}
	return l.Head.Hash()
}

// verifyLinks verifies the links of a past, each against the electors of the one before.
func verifyLinks(rules Rules, p wire.Past, verify slot.Verifier) (v verifiedLinks, err error) {
	before, hash := slot.Genesis(rules.Run), slot.Genesis(rules.Run).Hash()
	var electors []slot.Member
	for _, b := range p.Links {
		l, err := wire.ParseLink(b)
		if err != nil {
			return v, err
		}
		r := l.Head.Record
		next := r.Height == before.Height+1
		switch {
		case r.Run != rules.Run || r.Height <= before.Height || r.Height > p.Height || next != (r.Prev == hash):
			return v, Invalid("a link at height %d after one at height %d", r.Height, before.Height)
		case before.Height == 0 && r.Height != 1:
			return v, Invalid("the first link is at height %d", r.Height)
		}
		if err := rules.checkLink(r, electors); err != nil {
			return v, err
		}
		if err := l.Certificate.VerifyHead(l.Head, electors, rules.Quorum, verify); err != nil {
			return v, fmt.Errorf("%w: the link at height %d: %w", ErrInvalid, r.Height, err)
		}
		before, hash = r, l.Certificate.Hash
		v.follow(r, hash, electors)
		electors = r.Electors()
	}
	return v, nil
}

// follow takes in the next link, which changes these electors.
func (v *verifiedLinks) follow(r slot.Record, hash slot.Root, electors []slot.Member) {
	if r.Height == 1 {
		v.founding = hash
	}
	if r.Kind == slot.Fork {
		v.branch = hash
		if len(electors) > 0 {
			v.forks = append(v.forks, newProvisional(r, electors))
		}
	}
	v.all = v.all.with(hash)
	v.changes = append(v.changes, change{r.Height, r.Electors()})
}

// checkLink says whether a record may change the electors.
func (r Rules) checkLink(record slot.Record, electors []slot.Member) error {
	in := func(e slot.Member) bool {
		_, stays := FindMember(record.Electors(), e.Peer, e.Incarnation)
		return stays
	}
	switch {
	case len(record.Electors()) == 0 || !isLink(record, electors):
		return Invalid("a link at height %d that changes nothing", record.Height)
	case record.Height == 1:
		return r.checkFounding(record)
	case record.Kind != slot.Fork && !r.Grows(electors, record.Electors()):
		return Invalid("a link at height %d with too few of the electors before", record.Height)
	case record.Kind == slot.Fork && r.byzantineAt(len(electors)) && !slot.Majority(electors, in):
		return Invalid("a fork at height %d by too few of its electors", record.Height-1)
	}
	return nil
}
