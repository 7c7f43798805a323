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
	floor            []slot.Member // the electors of the record at the past's floor
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

// FoundingOf returns the hash of the founding that a past of a run states, or zero. It verifies
// nothing.
func FoundingOf(run slot.Root, p wire.Past) slot.Root {
	if len(p.Links) == 0 {
		return slot.Root{}
	}
	l, err := wire.ParseLink(p.Links[0], slot.Genesis(run))
	if err != nil {
		return slot.Root{}
	}
	return l.Certificate.Hash
}

// maxPastEntries is the number of entries that the lists of all links have together, in a past of
// another peer. A link that changes little is short, and yet stands for whole lists, which are made
// and hashed anew: without a bound 64 MiB of links take minutes. Links of an honest run have as
// many bytes as entries, or more, except where few members of very many vote.
const maxPastEntries = wire.MaxPast

// verifyLinks verifies the links of a past, each against the electors of the one before. The links'
// lists may have so many entries.
func verifyLinks(rules Rules, p wire.Past, verify slot.Verifier, most int) (own *past, v verifiedLinks, err error) {
	before, hash := uint64(0), slot.Genesis(rules.Run).Hash()
	var electors []slot.Member
	entries := 0
	own, err = readPast(rules.Run, p, func(l wire.Link) error {
		r := l.Head.Record
		if entries += entriesOf(r); entries > most {
			return Invalid("links whose lists have more than %d entries together", most)
		}
		next := r.Height == before+1
		switch {
		case r.Height <= before || r.Height > p.Height || next != (r.Prev == hash):
			return Invalid("a link at height %d after one at height %d", r.Height, before)
		case before == 0 && r.Height != 1:
			return Invalid("the first link is at height %d", r.Height)
		}
		if err := rules.checkLink(r, electors); err != nil {
			return err
		}
		if err := l.Certificate.VerifySigners(r, electors, rules.Quorum, verify); err != nil {
			return fmt.Errorf("%w: the link at height %d: %w", ErrInvalid, r.Height, err)
		}
		before, hash = r.Height, l.Certificate.Hash
		v.follow(r, hash, electors)
		if electors = r.Electors(); r.Height <= p.Floor {
			v.floor = electors
		}
		return nil
	})
	return own, v, err
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
}

// checkLink says whether a record may change the electors.
func (r Rules) checkLink(record slot.Record, electors []slot.Member) error {
	next := record.Electors()
	in := func(e slot.Member) bool {
		_, stays := FindMember(next, e.Peer, e.Incarnation)
		return stays
	}
	switch {
	case len(next) == 0 || !isLink(record, electors):
		return Invalid("a link at height %d that changes nothing", record.Height)
	case record.Height == 1:
		return r.checkFounding(record)
	case record.Kind != slot.Fork && !r.Grows(electors, next):
		return Invalid("a link at height %d with too few of the electors before", record.Height)
	case record.Kind == slot.Fork && r.byzantineAt(len(electors)) && !slot.Majority(electors, in):
		return Invalid("a fork at height %d by too few of its electors", record.Height-1)
	}
	return nil
}
