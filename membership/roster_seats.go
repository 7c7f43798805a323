package membership

import (
	"slices"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/chain"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// settle gives a record the members that this peer wants, as a leader, with all that follows for
// them from the chain. Where seats are earned, one member gets a seat, if one may have it: the one
// with most credit for which ready holds.
func (ro *roster) settle(r slot.Record, ready func(*contact) bool) slot.Record {
	t := ro.turnover(r, ready)
	if !ro.givesSeat(r, t) {
		return ro.chain.Settle(r, t)
	}
	for _, a := range ro.candidates(r, t) {
		if ready(a) {
			t.Seat = a.peer
			break
		}
	}
	return ro.chain.Settle(r, t)
}

// proofOf collects what proves to the others that a record may drop the members that it drops.
func (ro *roster) proofOf(r slot.Record) wire.Attachments {
	if !ro.cfg.Rules.Byzantine {
		return wire.Attachments{}
	}
	return ro.statements.attach(r)
}

// turnover is what this peer wants to change about the members, but for a seat.
func (ro *roster) turnover(r slot.Record, ready func(*contact) bool) chain.Turnover {
	t := chain.Turnover{Listed: ro.nextMembers(r, ready)}
	t.Deleted = func(e slot.Member) bool {
		_, retired := ro.statements.retired[ofMember(e)]
		return retired || ro.statements.hasLeft(e) || ro.statements.stated(ro.chain.Members(), e, true)
	}
	for _, e := range ro.chain.Members() {
		if _, stays := chain.FindMember(t.Listed, e.Peer, e.Incarnation); !stays && ro.evidence.evicted(ofMember(e)) {
			t.Evicted = append(t.Evicted, e.Peer)
		}
	}
	return t
}

// expelled says whether a key is evicted for good, whatever its incarnation, or is to be with the
// next record. In trust crash evidence is about an incarnation only.
func (ro *roster) expelled(p slot.PeerID) bool {
	if !ro.cfg.Rules.Byzantine {
		return false
	}
	i := slot.Find(ro.chain.Members(), p)
	return slices.Contains(ro.chain.Tip().Evicted, p) || i >= 0 && ro.evidence.evicted(ofMember(ro.chain.Members()[i]))
}

// givesSeat says whether a record may give a seat. Seats are no reason for a record, but before the
// first slot, when the run's first members get theirs.
func (ro *roster) givesSeat(r slot.Record, t chain.Turnover) bool {
	return !ro.closingDue() && r.Kind != slot.Access &&
		(r.Kind == slot.Step || ro.beginsWithSeats() || !slices.Equal(t.Listed, ro.chain.Members()))
}

// beginsWithSeats says whether the first members of a run may be waiting for their seats: these
// come before the first slot.
func (ro *roster) beginsWithSeats() bool { return ro.cfg.Rules.Byzantine && ro.chain.Tip().Slot == 0 }

// candidates lists the members that are heard, stand at the tip, and may get a seat in a record:
// those with most credit first.
func (ro *roster) candidates(r slot.Record, t chain.Turnover) (all []*contact) {
	for _, m := range ro.chain.Candidates(ro.chain.Settle(r, t)) {
		a := ro.presence.known[ofMember(m)]
		if a != nil && ro.presence.around(a.memberKey) && ro.presence.atOurTip(a) && !a.leaving {
			all = append(all, a)
		}
	}
	return all
}

// joinsWait says whether newcomers are listed with the next step only: peers that join and leave in
// a loop would keep the members busy otherwise (a12). They do not wait while the run needs them,
// nor while it has fewer than smallRun members: a leave waits, so these are few records a slot.
func (ro *roster) joinsWait(r slot.Record) bool {
	return ro.cfg.Rules.Byzantine && r.Kind != slot.Step && ro.chain.Starts() && !ro.needsPeers() &&
		len(ro.chain.Members()) >= smallRun
}

// smallRun is how many members a run of trust byzantine takes in at once.
const smallRun = 4
