package membership

import (
	"slices"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/chain"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// roster decides which peers may be members, which members stay, and which peers the next record
// lists.
type roster struct {
	*facts
	presence *presence
	evidence *evidence
	motions  *motions
	model    *model
	own      *own
	proofs   *proofs

	statements *statements
}

// room returns how many peers that never contributed the next record may list. If too few
// contributing members are left to close a slot, the run depends on any newcomer.
func (ro *roster) room() int {
	if !ro.cfg.Open || ro.needsPeers() {
		return slot.MaxMembers
	}
	return ro.chain.Newcomers().Room()
}

// needsPeers says whether no slot can close any more without newcomers.
func (ro *roster) needsPeers() bool {
	c := ro.chain
	works := ro.works
	if c.Tip().Slot == 0 {
		if !ro.cfg.Rules.Byzantine || !c.Starts() {
			return !c.Starts()
		}
		works = ro.contributes
	}
	return chain.CountMembers(c.Members(), works) < max(1, c.Rules().MinPeers)
}

// works says whether a member has contributed, and still does.
func (ro *roster) works(e slot.Member) bool {
	return ro.chain.Newcomers().Contributed(e.Peer) && ro.contributes(e)
}

// contributes says whether a member is likely to contribute to the open slot.
func (ro *roster) contributes(e slot.Member) bool {
	if !ro.stays(e) {
		return false
	}
	if ofMember(e) == ro.self {
		return ro.own.contributes && !ro.own.leaving && !ro.model.state.diverged
	}
	a := ro.presence.known[ofMember(e)]
	return a != nil && !a.leaving && (a.alive == nil || a.alive.Contributes)
}

// admissible lists the peers that ask to be members and that the next record may list. In an open
// run, a peer that never contributed waits for room.
func (ro *roster) admissible() []*contact {
	all := ro.presence.sorted(ro.joining)
	room := ro.room()
	if room == slot.MaxMembers {
		return all
	}
	return slices.DeleteFunc(all, func(a *contact) bool { return !ro.mayCome(a.peer, room) })
}

func (ro *roster) mayCome(p slot.PeerID, room int) bool {
	return room > 0 || ro.chain.Newcomers().Contributed(p)
}

// concerns says whether evidence against a peer matters here: the peer is a member, or asks to be.
func (ro *roster) concerns(w memberKey) bool {
	_, member := chain.FindMember(ro.chain.Members(), w.peer, w.inc)
	a := ro.presence.known[w]
	return member || a != nil && ro.joining(a)
}

// onJoin notes that a peer wants to be a member. The leader lists it once it sends HAVE.
func (ro *roster) onJoin(msg wire.Message, _ wire.Join) error {
	if err := ro.checkMember(msg); err == nil {
		return ErrStale
	}
	if ro.unwelcome(memberKey{msg.From, msg.Incarnation}) {
		return ErrSender
	}
	a := ro.presence.known[memberKey{msg.From, msg.Incarnation}]
	if ro.now-a.joinHeard > ro.cfg.Timing.Lost {
		a.joinSince = ro.now
	}
	a.joinHeard, a.leaving = ro.now, false
	return nil
}

// onLeave notes that a member wants to leave. A LEAVE of an earlier membership counts for nothing.
func (ro *roster) onLeave(msg wire.Message, l wire.Leave) error {
	if err := ro.checkMember(msg); err != nil {
		return err
	}
	if e, _ := chain.FindMember(ro.chain.Members(), msg.From, msg.Incarnation); e.Since != l.Since {
		return ErrStale
	}
	ro.presence.known[memberKey{msg.From, msg.Incarnation}].leaving = true
	return nil
}

// onOffer keeps each peer's offer of the highest sequence number.
func (ro *roster) onOffer(msg wire.Message, o wire.Offer) error {
	a := ro.presence.known[memberKey{msg.From, msg.Incarnation}]
	switch {
	case a == nil || o.Peer != msg.From || ro.unwelcome(a.memberKey):
		return ErrSender
	case o.Slot < ro.chain.OpenSlot() || a.offer != nil && o.Seq < a.offer.Seq:
		return ErrStale
	case !ro.proofs.announced(o.Offer, wire.OfferProof{Incarnation: msg.Incarnation, Sig: msg.Sig}):
		return chain.Invalid("more than %d offers for one slot, or two with one number", maxProven)
	case a.offer == nil || o.Seq > a.offer.Seq:
		a.offer, a.offerAt = &o.Offer, ro.now
	}
	return nil
}

// joining says whether a peer that is no member asked lately to be one.
func (ro *roster) joining(a *contact) bool {
	if ro.now-a.joinHeard > ro.cfg.Timing.Lost || ro.motions.barred(a.peer) || ro.expelled(a.peer) ||
		ro.now < ro.statements.rests[a.peer] {
		return false
	}
	_, listed := chain.FindMember(ro.chain.Members(), a.peer, a.inc)
	return !listed
}

// wantsIn says whether this peer asks to be a member: every peer that can follow the run does.
func (ro *roster) wantsIn() bool {
	return !ro.own.leaving && !ro.member() && !ro.motions.barred(ro.cfg.Self) && !ro.chain.Ended() &&
		!ro.expelled(ro.cfg.Self) && ro.chain.Height() > 0 &&
		ro.chain.Pinned() &&
		ro.model.state.known && !ro.model.state.diverged && ro.model.state.height+2 >= ro.chain.Height()
}

// unwelcome says whether a peer must not be a member any more: it is evicted for what it signed, or
// removed by motions.
func (ro *roster) unwelcome(w memberKey) bool {
	return ro.motions.barred(w.peer) || ro.evidence.evicted(w) || ro.expelled(w.peer)
}

// stays says whether a member is to be in the next record, as far as this peer sees: one that is
// gone has Timing.Lost to come back, as its process may be starting again.
func (ro *roster) stays(e slot.Member) bool {
	return ro.presence.heardLately(ofMember(e)) && ro.fits(e)
}

// fits says whether a member is on this branch, and neither evicted nor removed.
func (ro *roster) fits(e slot.Member) bool {
	a := ro.presence.known[ofMember(e)]
	return (a == nil || ro.presence.along(a)) && !ro.unwelcome(ofMember(e))
}
