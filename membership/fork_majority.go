package membership

import (
	"cmp"
	"slices"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/chain"
)

// first lists the members of the tip that come before all other peers in forking it: those with a
// seat where it takes a majority of them, else all.
func (fk *fork) first() []slot.Member {
	if fk.chain.MajorityForks() {
		return fk.chain.Electorate()
	}
	return fk.chain.Members()
}

// entitled says whether this peer is one of them.
func (fk *fork) entitled() bool {
	_, ok := chain.FindMember(fk.first(), fk.cfg.Self, fk.cfg.Incarnation)
	return ok && fk.chain.Pinned()
}

// enough says whether the peers of a list could fork the tip.
func (fk *fork) enough(list []slot.Member) bool {
	return fk.chain.MayFork(func(e slot.Member) bool {
		_, in := chain.FindMember(list, e.Peer, e.Incarnation)
		return in
	})
}

// mayDraft says whether it is a peer's turn to draft a fork, of a list of peers that could sign it.
// Where anybody may fork, it is the senior's. Where it takes a majority, one that drafts forks and
// does not sign them, or drafts none, must not keep the others from it: the turn goes round in the
// order of ranks, beginning after the drafter of the last attempt, one forkPause after the other.
func (fk *fork) mayDraft(p slot.PeerID, list []slot.Member) bool {
	if !fk.chain.MajorityForks() {
		return slot.Senior(list).Peer == p
	}
	n, place := len(list), fk.rank(p, list)
	if place < 0 {
		place = n // it is not heard here: after all the others
	} else if last := fk.rank(fk.drafter, list); fk.signed != nil {
		place = (place - last - 1 + n) % n
	}
	waited := fk.now - max(fk.lost, fk.at)
	if fk.signed == nil && fk.atOnce != never {
		waited = fk.now - fk.atOnce + fk.forkPause()
	}
	return waited >= time.Duration(1+place)*fk.forkPause()
}

// rank returns a peer's place among the electors of a list, the senior first: -1 if it has none.
func (fk *fork) rank(p slot.PeerID, list []slot.Member) int {
	order := slices.SortedFunc(slices.Values(list), func(a, b slot.Member) int {
		return cmp.Or(cmp.Compare(a.Seat, b.Seat), cmp.Compare(a.Peer, b.Peer))
	})
	return slices.IndexFunc(order, func(e slot.Member) bool { return e.Peer == p })
}

// convicted lists the members that contradicted themselves: in trust byzantine a fork evicts their
// keys.
func (fk *fork) convicted() (keys []slot.PeerID) {
	for _, e := range fk.chain.Members() {
		if ofMember(e) != fk.self && fk.roster.evidence.evicted(ofMember(e)) {
			keys = append(keys, e.Peer)
		}
	}
	return keys
}

// evictsInnocent finds a key that a fork evicts, and that nothing is known against here. The record
// below may have evicted it before.
func (fk *fork) evictsInnocent(r slot.Record) (p slot.PeerID, found bool) {
	known := slices.Concat(fk.chain.Tip().Evicted, fk.convicted())
	i := slices.IndexFunc(r.Evicted, func(p slot.PeerID) bool { return !slices.Contains(known, p) })
	if i < 0 {
		return "", false
	}
	return r.Evicted[i], true
}
