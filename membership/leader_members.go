package membership

import (
	"cmp"
	"slices"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// nextMembers lists who should decide the height after the open one: the electors that are heard, less those who leave, plus
// the newcomers for whom ready holds, as many as growth allows (HOLES H13). listed are the contributions of the record.
func (m *Machine) nextMembers(listed []slot.Offer, ready func(*acquaintance) bool) []slot.Member {
	old := m.chain.electorate()
	if m.closingDue() {
		return old
	}
	var next []slot.Member
	for _, e := range old {
		if m.stays(e) && !m.mayGo(e, listed) {
			next = append(next, e)
		}
	}
	if len(next) == 0 {
		next = slices.DeleteFunc(slices.Clone(old), func(e slot.Member) bool { return ofMember(e) != m.presence.self })
	}
	if m.accessDue() { // newcomers would make the quorum that has ordered it none
		return next
	}
	return m.withNewcomers(next, ready)
}

// withNewcomers adds them.
func (m *Machine) withNewcomers(next []slot.Member, ready func(*acquaintance) bool) []slot.Member {
	room := m.room()
	for _, a := range m.newcomers() {
		proven := m.chain.credit.contributed(a.peer)
		if !ready(a) || len(next) >= slot.MaxMembers || !proven && room == 0 {
			continue
		}
		if more := with(next, m.chain.listed(a.peer, a.inc)); more != nil && grows(m.chain.electorate(), more) {
			next = more
			if !proven {
				room--
			}
		}
	}
	return next
}

// with adds a member in its place; nil if its peer is still listed in another incarnation.
func with(members []slot.Member, e slot.Member) []slot.Member {
	if slot.Find(members, e.Peer) >= 0 {
		return nil
	}
	more := append(slices.Clone(members), e)
	slices.SortFunc(more, func(a, b slot.Member) int { return cmpPeer(a.Peer, b.Peer) })
	return more
}

// newcomers lists who asks to be a member and may be one now: those that contributed before, then the longest waiting.
func (m *Machine) newcomers() []*acquaintance {
	all := m.admissible()
	slices.SortStableFunc(all, func(a, b *acquaintance) int {
		return cmp.Or(-compareBools(m.chain.credit.contributed(a.peer), m.chain.credit.contributed(b.peer)), cmp.Compare(a.joinSince, b.joinSince))
	})
	return all
}

func compareBools(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

// mayGo says whether a member that wants to leave can: its standing offer for the open slot still counts, unless it waits for members that
// nobody knows will ever come.
func (m *Machine) mayGo(e slot.Member, listed []slot.Offer) bool {
	a := m.presence.known[ofMember(e)]
	if a == nil || !a.leaving {
		return false
	}
	if a.offer == nil || m.chain.ended() || m.chain.lacks() || m.chain.checkOffer(*a.offer) != nil {
		return true
	}
	return slices.ContainsFunc(listed, func(o slot.Offer) bool { return o.Peer == e.Peer && o.Seq >= a.offer.Seq })
}

// draftsAPause is after how many drafts of members records at one height the pause between them doubles.
const draftsAPause = 4

// accessPatience is for how many Timing.Patience a draft of an access record is progress enough: the leader gives up one that too few can answer
// after one, and tries again four later.
const accessPatience = 6

// recordDue says whether the leader owes a record without a step.
func (m *Machine) recordDue() bool {
	return m.membersDue() || m.accessDue() && m.now-m.open.accessAt >= accessPatience*m.cfg.Timing.Patience
}

// membersDue says whether a join, leave or loss waits to be recorded.
func (m *Machine) membersDue() bool {
	if m.chain.height() == 0 || m.chain.ended() {
		return false
	}
	// A newcomer that never says HAVE does not keep the members busy: drafts for its sake come ever more seldom.
	d := m.open
	pause := m.cfg.Timing.Retry << min(d.drafts/draftsAPause, 6)
	ready := func(a *acquaintance) bool { return m.now-d.draftAt >= pause && m.atOurTip(a) }
	return !slices.Equal(m.nextMembers(nil, ready), m.chain.electorate())
}

// closingDue says whether the run's last state root waits to be certified.
func (m *Machine) closingDue() bool { return m.chain.ended() && !m.chain.closed() }

// fragile says whether a member is lost and one more loss would cost the quorum: then its record cannot wait for the slot.
func (m *Machine) fragile() bool {
	old := m.chain.electorate()
	heard := m.stays
	if n := countMembers(old, heard); 2*(n-1) > len(old) {
		return false // also without whomever
	}
	if !slot.Quorum(old, heard) || !slices.ContainsFunc(old, func(e slot.Member) bool { return !heard(e) }) {
		return false
	}
	return slices.ContainsFunc(old, func(gone slot.Member) bool {
		return heard(gone) && !slot.Quorum(old, func(e slot.Member) bool { return heard(e) && e != gone })
	})
}

func countMembers(members []slot.Member, in func(slot.Member) bool) (n int) {
	for _, e := range members {
		if in(e) {
			n++
		}
	}
	return n
}
