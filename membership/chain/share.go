package chain

import (
	"cmp"
	"slices"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// Newcomer says whether a member has not earned a seat yet, and has none.
func Newcomer(m slot.Member) bool { return !m.Elects() && m.Credit < seatCredit }

// sharesFrom is the fewest electors beside whom newcomers are few. Two cannot outvote one that
// sends what is wrong. So of fewer electors a share would hold up honest newcomers, and save
// nothing.
const sharesFrom = 3

// bounds says whether a record bounds the newcomers of the slot that it begins: votes are earned,
// and it has enough electors.
func (r Rules) bounds(record slot.Record) bool {
	electors := 0
	for i := 0; r.Byzantine && i < len(record.Members) && electors < sharesFrom; i++ {
		if record.Members[i].Elects() {
			electors++
		}
	}
	return electors >= sharesFrom
}

// isNewcomer says whether a peer is a newcomer by a record, and what that says of it. Whom it does
// not list is one.
func isNewcomer(record slot.Record, p slot.PeerID) (m slot.Member, is bool) {
	if i := slot.Find(record.Members, p); i >= 0 {
		m = record.Members[i]
	}
	return m, Newcomer(m)
}

// FewNewcomers says whether newcomers are few in the open slot: where votes are earned and
// sharesFrom were taken when it began. A record in mid-slot changes nobody's mind about that.
func (pos *position) FewNewcomers() bool { return pos.rules.bounds(pos.recent.began()) }

// KnownOf lists those of the offers for the open slot that newcomers did not make, where newcomers
// are few: what they claim of themselves, who may be many, does not count. It lists all if there
// are none.
func (pos *position) KnownOf(offers []slot.Offer) []slot.Offer {
	newcomers := pos.newcomersOf(pos.recent.began(), offers)
	if len(newcomers) == len(offers) {
		return offers
	}
	return slices.DeleteFunc(slices.Clone(offers), func(o slot.Offer) bool {
		return slices.Contains(newcomers, o.Peer)
	})
}

// WithinShare returns those of the offers for the open slot that its plan takes. Where votes are
// earned and sharesFrom are taken, newcomers are few among the contributors: else names, which cost
// nothing, would outvote the trimmed mean (BYZANTINE a8). Those with most credit come first, then
// those that have waited longest since a slot took them, so that they take turns, then those that
// are members for longest. One is always taken, and as many as it takes to close the slot. Those
// that were in a group of this slot before keep their places, ahead of all others.
func (pos *position) WithinShare(offers []slot.Offer, before ...slot.PeerID) []slot.Offer {
	newcomers := pos.newcomersOf(pos.recent.began(), offers, before...)
	room := pos.rules.shareBeside(len(offers) - len(newcomers))
	if len(newcomers) <= room {
		return offers
	}
	out := newcomers[room:]
	return slices.DeleteFunc(slices.Clone(offers), func(o slot.Offer) bool { return slices.Contains(out, o.Peer) })
}

// newcomersOf lists the newcomers among the contributors, by a record, those first that keep their
// places beside fewer others.
func (pos *position) newcomersOf(record slot.Record, offers []slot.Offer, before ...slot.PeerID) []slot.PeerID {
	var newcomers []slot.Member
	few := pos.rules.bounds(record)
	for _, o := range offers {
		if m, is := isNewcomer(record, o.Peer); is && few {
			m.Peer = o.Peer
			newcomers = append(newcomers, m)
		}
	}
	later := func(m slot.Member) int { return map[bool]int{false: 1}[slices.Contains(before, m.Peer)] }
	slices.SortFunc(newcomers, func(a, b slot.Member) int {
		return cmp.Or(later(a)-later(b), cmp.Compare(b.Credit, a.Credit),
			cmp.Compare(pos.spent[a.Peer].slot, pos.spent[b.Peer].slot), byCredit(a, b))
	})
	peers := make([]slot.PeerID, len(newcomers))
	for i, m := range newcomers {
		peers[i] = m.Peer
	}
	return peers
}

// shareBeside is how many newcomers a plan takes beside so many others, and a set of contributors.
func (r Rules) shareBeside(others int) int {
	return max(1, others*int(r.NewcomerShare)/1000, r.MinPeers-others)
}

// Share bounds the newcomers in each set of contributors out of a list of offers: beside the others
// of that very set there are no more than a plan takes beside so many. It is a function of the
// record with which the open slot began and of nothing later, so leaders, owners and voters agree
// on it for all of the slot, and it is never changed. The zero value bounds nothing.
type Share struct {
	rules     Rules
	newcomers []int // places in the list: those first that keep theirs
}

// Share returns the bound on newcomers in the sets of the open slot, over offers sorted by peer.
func (pos *position) Share(offers []slot.Offer) Share {
	s := Share{rules: pos.rules}
	for _, p := range pos.newcomersOf(pos.recent.began(), offers) {
		s.newcomers = append(s.newcomers, slot.Plan{Offers: offers}.Place(p))
	}
	return s
}

// Counts returns how many newcomers a set has, beside how many others, and the most that it may
// have.
func (s Share) Counts(set slot.Bitmap) (newcomers, others, most int) {
	for _, i := range s.newcomers {
		if set.Has(i) {
			newcomers++
		}
	}
	others = set.Count() - newcomers
	if len(s.newcomers) == 0 {
		return 0, others, 0
	}
	return newcomers, others, s.rules.shareBeside(others)
}

// Holds says whether a set has no more newcomers than it may have.
func (s Share) Holds(set slot.Bitmap) bool {
	newcomers, _, most := s.Counts(set)
	return newcomers <= most
}

// Within returns a set without the newcomers that are too many in it. Those for which stays holds
// go last.
func (s Share) Within(set slot.Bitmap, stays func(place int) bool) slot.Bitmap {
	n, _, most := s.Counts(set)
	set = slices.Clone(set)
	for _, last := range []bool{false, true} {
		for _, i := range slices.Backward(s.newcomers) {
			if n > most && set.Has(i) && stays(i) == last {
				set[i/8] &^= 1 << (i % 8)
				n--
			}
		}
	}
	return set
}

// Fewest returns a set with no more newcomers than any set may have.
func (s Share) Fewest(set slot.Bitmap) slot.Bitmap {
	s.rules.NewcomerShare = 0
	return s.Within(set, func(int) bool { return false })
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
	return known + min(len(without)-known, pos.rules.shareBeside(offers+known))
}

// MayOwn says whether a member may own pieces of a reduction: where votes are earned and enough are
// taken to withstand a liar, an owner is an elector, or has contributed lately.
func (pos *position) MayOwn(p slot.PeerID) bool {
	m, _ := isNewcomer(pos.tip, p)
	return !pos.rules.byzantineAt(len(pos.Electorate())) || m.Elects() || m.Credit > 0
}
