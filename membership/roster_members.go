package membership

import (
	"cmp"
	"slices"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/chain"
)

// nextMembers lists the members that should decide the height after the open one: the electors that
// are heard, less those that leave, plus the newcomers for which ready holds, as many as growth
// allows (HOLES H13). listed are the contributions of the record.
func (ro *roster) nextMembers(listed []slot.Offer, ready func(*contact) bool) []slot.Member {
	old := ro.chain.Members()
	if ro.closingDue() {
		return old
	}
	var next []slot.Member
	for _, e := range old {
		if ro.stays(e) && !ro.mayGo(e, listed) {
			next = append(next, e)
		}
	}
	if len(next) == 0 {
		next = slices.DeleteFunc(slices.Clone(old), func(e slot.Member) bool { return ofMember(e) != ro.self })
	}
	// with newcomers, the quorum that wants the removal would be none any more
	if ro.motions.accessDue() {
		return next
	}
	return ro.withNewcomers(next, ready)
}

// withNewcomers adds newcomers, as many as growth allows.
func (ro *roster) withNewcomers(next []slot.Member, ready func(*contact) bool) []slot.Member {
	room := ro.room()
	for _, a := range ro.newcomers() {
		proven := ro.chain.Credit().Contributed(a.peer)
		if !ready(a) || len(next) >= slot.MaxMembers || !proven && room == 0 {
			continue
		}
		if more := with(next, ro.chain.Listing(a.peer, a.inc)); more != nil &&
			ro.cfg.Rules.Grows(ro.chain.Electorate(), more) {
			next = more
			if !proven {
				room--
			}
		}
	}
	return next
}

// newcomers lists the peers that ask to be members and may be members now: those that contributed
// before, then the longest waiting.
func (ro *roster) newcomers() []*contact {
	all := ro.admissible()
	slices.SortStableFunc(all, func(a, b *contact) int {
		return cmp.Or(-compareBools(ro.chain.Credit().Contributed(a.peer), ro.chain.Credit().Contributed(b.peer)),
			cmp.Compare(a.joinSince, b.joinSince))
	})
	return all
}

// mayGo says whether a member that wants to leave can: its standing offer for the open slot still
// counts, unless it waits for members that nobody knows will ever come.
func (ro *roster) mayGo(e slot.Member, listed []slot.Offer) bool {
	a := ro.presence.known[ofMember(e)]
	if a == nil || !a.leaving {
		return false
	}
	if a.offer == nil || ro.chain.Ended() || ro.chain.LacksPeers() || ro.chain.CheckOffer(*a.offer) != nil {
		return true
	}
	return slices.ContainsFunc(listed, func(o slot.Offer) bool { return o.Peer == e.Peer && o.Seq >= a.offer.Seq })
}

// fragile says whether a member is lost and one more loss would cost the quorum: then its record
// cannot wait for the slot.
func (ro *roster) fragile() bool {
	old := ro.chain.Electorate()
	heard := ro.stays
	if n := chain.CountMembers(old, heard); n-1 >= ro.cfg.Rules.Votes(len(old)) {
		return false // a quorum is left also without any one of them
	}
	if !ro.cfg.Rules.Quorum(old, heard) || !slices.ContainsFunc(old, func(e slot.Member) bool { return !heard(e) }) {
		return false
	}
	return slices.ContainsFunc(old, func(gone slot.Member) bool {
		return heard(gone) && !ro.cfg.Rules.Quorum(old, func(e slot.Member) bool { return heard(e) && e != gone })
	})
}
