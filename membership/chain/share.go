package chain

import (
	"cmp"
	"slices"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// Newcomer says whether a member has not earned a seat yet, and has none.
func Newcomer(m slot.Member) bool { return !m.Elects() && m.Credit < seatCredit }

// newcomer says whether a peer is one by the newest record, and what that says of it.
func (pos *position) newcomer(p slot.PeerID) (m slot.Member, is bool) {
	if i := slot.Find(pos.Members(), p); i >= 0 {
		m = pos.Members()[i]
	}
	return m, Newcomer(m)
}

// sharesFrom is the fewest electors beside whom newcomers are few. Two cannot outvote one that
// sends what is wrong. So of fewer electors a share would hold up honest newcomers, and save
// nothing.
const sharesFrom = 3

// FewNewcomers says whether newcomers are few in plans: where votes are earned and sharesFrom are
// taken.
func (pos *position) FewNewcomers() bool {
	return pos.rules.Byzantine && len(pos.Electorate()) >= sharesFrom
}

// IsNewcomer says whether a peer has no seat, and has not earned one yet, by the newest record.
func (pos *position) IsNewcomer(p slot.PeerID) bool {
	_, is := pos.newcomer(p)
	return is
}

// WithinShare returns those of the offers for the open slot that its plan takes. Where votes are
// earned and sharesFrom are taken, newcomers are few among the contributors: else names, which cost
// nothing, would outvote the trimmed mean (BYZANTINE a8). Those with most credit come first, then
// those that have waited longest since a slot took them, so that they take turns, then those that
// are members for longest. One is always taken, and as many as it takes to close the slot. Those
// that were in a group of this slot before keep their places, ahead of all others.
func (pos *position) WithinShare(offers []slot.Offer, before ...slot.PeerID) []slot.Offer {
	if !pos.FewNewcomers() {
		return offers
	}
	var newcomers []slot.Member
	for _, o := range offers {
		if m, is := pos.newcomer(o.Peer); is {
			m.Peer = o.Peer
			newcomers = append(newcomers, m)
		}
	}
	room := pos.shareBeside(len(offers) - len(newcomers))
	if len(newcomers) <= room {
		return offers
	}
	later := func(m slot.Member) int { return map[bool]int{false: 1}[slices.Contains(before, m.Peer)] }
	slices.SortFunc(newcomers, func(a, b slot.Member) int {
		return cmp.Or(later(a)-later(b), cmp.Compare(b.Credit, a.Credit),
			cmp.Compare(pos.spent[a.Peer].slot, pos.spent[b.Peer].slot), byCredit(a, b))
	})
	out := newcomers[room:]
	return slices.DeleteFunc(slices.Clone(offers), func(o slot.Offer) bool {
		return slices.ContainsFunc(out, func(m slot.Member) bool { return m.Peer == o.Peer })
	})
}

// shareBeside is how many newcomers a plan takes beside so many others.
func (pos *position) shareBeside(others int) int {
	return max(1, others*int(pos.rules.NewcomerShare)/1000, pos.rules.MinPeers-others)
}

// Awaited is how many members without an offer, beside so many offers, count as contributors that a
// slot has to wait for. Where newcomers are few in a plan, so are those among them that have not
// contributed lately, and have no seat: they may never offer.
func (pos *position) Awaited(offers int, without []slot.Member) int {
	if !pos.FewNewcomers() {
		return len(without)
	}
	known := 0
	for _, m := range without {
		if m.Elects() || m.Credit > 0 {
			known++
		}
	}
	return known + min(len(without)-known, pos.shareBeside(offers+known))
}

// MayOwn says whether a member may own pieces of a reduction: where votes are earned and enough are
// taken to withstand a liar, an owner is an elector, or has contributed lately.
func (pos *position) MayOwn(p slot.PeerID) bool {
	m, _ := pos.newcomer(p)
	return !pos.rules.byzantineAt(len(pos.Electorate())) || m.Elects() || m.Credit > 0
}
