package membership

import (
	"cmp"
	"slices"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/chain"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// nextMembers lists the members that should decide the height after the open one: the electors that
// the record keeps, plus the newcomers for which ready holds, as many as growth allows (HOLES H13).
// Of the record it needs what is decided in it: its kind, contributions and decisions.
func (ro *roster) nextMembers(r slot.Record, ready func(*contact) bool) []slot.Member {
	old := ro.chain.Members()
	if ro.closingDue() {
		return old
	}
	var next []slot.Member
	room := wire.MaxProof
	for _, e := range old {
		if ro.listsAgain(e, r) || !ro.statements.carries(e, &room) {
			next = append(next, e)
		}
	}
	if ro.cfg.Rules.Byzantine && !slices.ContainsFunc(next, slot.Member.Elects) {
		return old // nobody could decide the next height
	}
	if len(next) == 0 {
		next = slices.DeleteFunc(slices.Clone(old), func(e slot.Member) bool { return ofMember(e) != ro.self })
	}
	// with newcomers, the quorum that wants the removal would be none any more
	if ro.motions.accessDue() || ro.joinsWait(r) {
		return next
	}
	return ro.withNewcomers(r, next, ready)
}

// listsAgain says whether a record lists a member again. In trust crash the leader's word drops it,
// in trust byzantine what is held here and proves to all that it may be dropped (drops.go).
func (ro *roster) listsAgain(e slot.Member, r slot.Record) bool {
	switch {
	case !ro.cfg.Rules.Byzantine:
		return ro.stays(e) && !ro.mayGo(e, r.Contributions)
	case r.Kind == slot.Access && ro.chain.Access().BarredBy(r, e.Peer):
		return false
	case ro.statements.hasLeft(e) && ro.mayGo(e, r.Contributions):
		return false
	}
	return !ro.statements.mayDrop(e)
}

// withNewcomers adds newcomers, as many as growth allows. Where seats are earned they have none
// yet, so they need not be ready.
func (ro *roster) withNewcomers(r slot.Record, next []slot.Member, ready func(*contact) bool) []slot.Member {
	room := ro.room()
	for _, a := range ro.newcomers() {
		proven := ro.chain.Newcomers().Contributed(a.peer)
		if !ready(a) && !ro.cfg.Rules.Byzantine || len(next) >= slot.MaxMembers || !proven && room == 0 ||
			r.Kind != slot.Step && ro.comesTooOften(a.peer) && !ro.needsPeers() {
			continue
		}
		if more := insertMember(next, ro.chain.Listing(a.peer, a.inc)); more != nil &&
			ro.cfg.Rules.Grows(ro.chain.Electorate(), slot.Record{Members: more}.Electors()) {
			next = more
			if !proven {
				room--
			}
		}
	}
	return next
}

// joinsASlot is how often a peer may be listed again between two steps (a12).
const joinsASlot = 3

// comesTooOften says whether a peer has been listed so often since the newest step. Then it waits
// for the next one: each time that it joins and leaves takes two records.
func (ro *roster) comesTooOften(p slot.PeerID) bool {
	in := func(h uint64) bool {
		return slices.ContainsFunc(ro.chain.At(h).Members, func(m slot.Member) bool { return m.Peer == p })
	}
	times := 0
	for h := ro.chain.Height(); h > ro.chain.Floor() && ro.chain.At(h).Kind != slot.Step; h-- {
		if in(h) && !in(h-1) {
			times++
		}
	}
	return times >= joinsASlot
}

// changeDue says whether a change of the members waits for a record of its own. In trust byzantine
// losses and leaves wait for the next step, unless one more loss would cost the quorum: members
// that come and go in a loop would keep the others busy (a12).
func (ro *roster) changeDue(ready func(*contact) bool) bool {
	old := ro.chain.Members()
	next := ro.settle(slot.Record{Kind: slot.Members}, ready).Members
	if !ro.cfg.Rules.Byzantine || ro.fragile() {
		return !slices.Equal(next, old)
	}
	return slices.ContainsFunc(next, func(e slot.Member) bool {
		m, listed := chain.FindMember(old, e.Peer, e.Incarnation)
		return !listed || m.Seat != e.Seat
	})
}

// newcomers lists the peers that ask to be members and may be members now: those that contributed
// before, then the longest waiting.
func (ro *roster) newcomers() []*contact {
	all := ro.admissible()
	slices.SortStableFunc(all, func(a, b *contact) int {
		return cmp.Or(-compareBools(ro.chain.Newcomers().Contributed(a.peer), ro.chain.Newcomers().Contributed(b.peer)),
			cmp.Compare(a.joinSince, b.joinSince))
	})
	return all
}

// spares says whether a leader has tries left for newcomers in a ballot. Half of a term's are for
// the slot, whose record lists newcomers, too, and for losses; unless no slot can close without
// newcomers, or none has come for long since the last draft.
func (ro *roster) spares(ballot uint32, draftAt time.Duration) bool {
	try, long := ballot%slot.Tries, ro.now-draftAt >= 8*ro.cfg.Timing.Lost
	return try < slot.Tries/2 || ro.needsPeers() ||
		long && (try < slot.Tries-2 || len(ro.presence.offers()) == 0)
}

// ready says whether a newcomer is likely to send HAVE: it stands at the tip, and none was missed
// lately.
func (ro *roster) ready(a *contact) bool {
	return ro.presence.atOurTip(a) && ro.now-a.silentAt > ro.cfg.Timing.Lost
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
	if ro.cfg.Rules.Byzantine {
		heard = func(e slot.Member) bool { return ro.listsAgain(e, slot.Record{}) }
	}
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
