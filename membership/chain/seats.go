package chain

import (
	"cmp"
	"slices"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// Where members may lie, a name must be worth nothing: a vote is earned by contributions. A record
// lists the credit of each member, and which of them are electors. All these numbers follow from
// the records below it and from what its leader chooses: which peers it lists, and which one of
// those that have earned it gets a seat. In trust crash there is no credit, and each member has a
// seat for as long as it is listed.
const (
	contributionCredit = 8   // of a step record that lists a contribution
	mostCredit         = 256 // of a member
	seatCredit         = 32  // is needed for a seat: four contributions
	firstSeatCredit    = 8   // is enough while fewer than firstSeats are taken
	firstSeats         = 3
	fullSeats          = 4  // the fewest electors that withstand a liar
	moreSeats          = 3  // as many again withstand one liar more
	maxElectors        = 31 // unless the rules say otherwise
	replaceEvery       = 8  // records, at least, between two that replace an elector
)

// seating is what the records of a chain say about seats beside what its tip lists. It is
// immutable.
type seating struct {
	started  bool          // a record has listed as many members as the run starts with
	replaced uint64        // height of the newest record that replaced an elector; 0: none
	leftOut  []slot.Member // electors that the newest fork left without a seat; they have none yet
}

// follow takes in the record after one with these electors.
func (s seating) follow(r slot.Record, before []slot.Member, startPeers int) seating {
	s.started = s.started || r.Slot > 0 || len(r.Members) >= startPeers
	seatless := func(e slot.Member) bool {
		m, listed := FindMember(r.Members, e.Peer, e.Incarnation)
		return listed && !m.Elects()
	}
	if r.Kind == slot.Fork {
		s.leftOut = before
	} else if slices.ContainsFunc(before, seatless) {
		s.replaced = r.Height
	}
	s.leftOut = slices.DeleteFunc(slices.Clone(s.leftOut), func(e slot.Member) bool {
		_, absent := FindMember(r.Absent, e.Peer, e.Incarnation)
		return !absent && !seatless(e)
	})
	return s
}

// Turnover is what the leader of a record chooses about its members.
type Turnover struct {
	Listed  []slot.Member                // that take part, by peer: only peer and incarnation count
	Deleted func(entry slot.Member) bool // of those that do not: they left, or retired; nil: none
	Evicted []slot.PeerID                // for what they signed
	Seat    slot.PeerID                  // gets one; "": nobody
}

// Settle returns a record of the height above the tip, which is no fork, with the members, absent
// members and evicted keys that follow from a turnover.
func (pos *position) Settle(r slot.Record, t Turnover) slot.Record {
	r.Members, r.Absent, r.Evicted = nil, nil, nil
	if !pos.rules.Byzantine {
		for _, m := range t.Listed {
			r.Members = append(r.Members, pos.Listing(m.Peer, m.Incarnation))
		}
		return r
	}
	tip := pos.tip
	r.Height = tip.Height + 1
	r.Evicted = evict(tip.Evicted, t.Evicted)
	credit := pos.creditAfter(r)
	for _, m := range slices.Concat(tip.Members, tip.Absent) {
		m.Credit, m.Seat = credit(m), 0
		if slot.Find(t.Listed, m.Peer) < 0 && m.Credit > 0 && !slices.Contains(r.Evicted, m.Peer) &&
			(t.Deleted == nil || !t.Deleted(m)) {
			r.Absent = append(r.Absent, m)
		}
	}
	r.Absent = mostCredited(r.Absent, slot.MaxMembers)
	known := len(r.Absent)
	for _, m := range t.Listed {
		if e, old := pos.entry(m); old {
			known++
			e.Credit = credit(e)
			m = e
		} else {
			m = slot.Member{Peer: m.Peer, Incarnation: m.Incarnation, Since: r.Height}
		}
		r.Members = append(r.Members, m)
	}
	pos.creditFirst(r.Members, known)
	if t.Seat != "" {
		pos.seat(r, t.Seat)
	}
	return r
}

// entry returns what the tip says of a member, absent or not.
func (pos *position) entry(m slot.Member) (e slot.Member, ok bool) {
	tip := pos.tip
	if e, ok = FindMember(tip.Members, m.Peer, m.Incarnation); ok {
		return e, true
	}
	return FindMember(tip.Absent, m.Peer, m.Incarnation)
}

// creditFirst gives the first members of a run the credit for a seat: whoever says how many peers a
// run starts with trusts these. known is how many of its entries a record has from the one below.
func (pos *position) creditFirst(members []slot.Member, known int) {
	if pos.seating.started {
		return
	}
	for i := range members {
		if members[i].Since == pos.tip.Height+1 && known < max(1, pos.rules.StartPeers) {
			members[i].Credit = seatCredit
			known++
		}
	}
}

// evict returns the newest evicted keys, with more of them.
func evict(keys, more []slot.PeerID) []slot.PeerID {
	all := slices.Clone(keys)
	for _, p := range more {
		if !slices.Contains(all, p) {
			all = append(all, p)
		}
	}
	return all[max(0, len(all)-slot.MaxEvicted):]
}

// mostCredited returns, sorted by peer, the members with most credit, at most so many.
func mostCredited(members []slot.Member, most int) []slot.Member {
	slices.SortFunc(members, byCredit)
	members = members[:min(len(members), most)]
	slices.SortFunc(members, func(a, b slot.Member) int { return cmp.Compare(a.Peer, b.Peer) })
	return members
}

// byCredit puts members with more credit first, then those that are members for longer, then the
// lower ID.
func byCredit(a, b slot.Member) int {
	return cmp.Or(cmp.Compare(b.Credit, a.Credit), cmp.Compare(a.Since, b.Since), cmp.Compare(a.Peer, b.Peer))
}

// seat gives a member a seat: that of the elector with least credit, if there is no free one.
func (pos *position) seat(r slot.Record, p slot.PeerID) {
	if pos.rules.full(len(r.Electors())) {
		r.Members[slot.Find(r.Members, leastCredited(r.Electors()).Peer)].Seat = 0
	}
	if i := slot.Find(r.Members, p); i >= 0 {
		r.Members[i].Seat = r.Height
	}
}

// leastCredited is the elector that is replaced first: of those with least credit the youngest.
func leastCredited(electors []slot.Member) slot.Member {
	return slices.MinFunc(electors, func(a, b slot.Member) int {
		return cmp.Or(cmp.Compare(a.Credit, b.Credit), cmp.Compare(b.Seat, a.Seat), cmp.Compare(b.Peer, a.Peer))
	})
}

// full says whether n electors get no more of them, as many as withstand another liar.
func (r Rules) full(n int) bool { return seatsAbove(n) > cmp.Or(r.MaxElectors, maxElectors) }

// seatsAbove returns the next larger number of electors worth having: from four on, 5 or 6
// withstand no more liars than 4.
func seatsAbove(n int) int {
	if n < fullSeats {
		return n + 1
	}
	return fullSeats + (n-1)/moreSeats*moreSeats
}

// Candidates lists the members of which one may get a seat in a record, which Settle returned
// without giving one: those with most credit first.
func (pos *position) Candidates(r slot.Record) []slot.Member {
	electors := r.Electors()
	n := len(electors)
	if n == 0 {
		return nil
	}
	able := slices.DeleteFunc(slices.Clone(r.Members), func(m slot.Member) bool {
		return m.Elects() || !pos.eligible(m)
	})
	switch {
	case pos.rules.full(n):
		if pos.seating.replaced > 0 && r.Height < pos.seating.replaced+replaceEvery {
			return nil
		}
		least := 2 * leastCredited(electors).Credit
		able = slices.DeleteFunc(able, func(m slot.Member) bool { return m.Credit < max(least, seatCredit) })
	case n >= fullSeats && n+len(able) < seatsAbove(n):
		return nil
	}
	if len(able) == 0 || !pos.seatKeepsQuorum(r, able[0].Peer) {
		return nil
	}
	slices.SortFunc(able, byCredit)
	return able
}

// seatKeepsQuorum says whether the electors that stay are a quorum of all, with one more.
func (pos *position) seatKeepsQuorum(r slot.Record, p slot.PeerID) bool {
	r.Members = slices.Clone(r.Members)
	pos.seat(r, p)
	return pos.rules.Grows(pos.Electorate(), r.Electors())
}

// eligible says whether a member without a seat has earned one, with the credit that the next
// record leaves to it.
func (pos *position) eligible(m slot.Member) bool {
	need := uint16(seatCredit)
	if len(pos.Electorate()) < firstSeats {
		need = firstSeatCredit
	}
	_, was := FindMember(pos.seating.leftOut, m.Peer, m.Incarnation)
	return was || m.Credit >= need
}
