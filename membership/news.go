package membership

import (
	"fmt"
	"slices"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/chain"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// news reports what certified records changed, and whether this peer is a member.
type news struct {
	*facts
	*effects
	presence *presence
	motions  *motions
	own      *own
	catchup  *catchup
	turnout  *turnout

	statements *statements

	listed      bool // an event has reported this peer as a member
	wasMember   bool // it has been a member since it started
	reportedOut bool // an event has reported its removal
	expelled    bool // it was a member, and a record has removed it
	provisional bool // by the newest record, an event has reported it

	charge string // why a record has dropped this peer, as far as that is known
}

// reportAdopted reports what the record changed.
func (ne *news) reportAdopted(c wire.Commit, before []slot.Member) {
	r := c.Record
	ne.reportRecord(EventCertified, r, c.Certificate.Ballot)
	e := Event{
		Height: r.Height, Slot: r.Slot, Ballot: c.Certificate.Ballot, Record: r.Hash(), Members: peersOf(r.Members),
	}
	if r.Kind == slot.Step {
		step := e
		step.Kind, step.Contributors, step.Root = EventCommitted, offerers(r.Contributions), r.Outcome()
		ne.event(step)
	}
	if r.Kind == slot.Fork && r.Height > 1 {
		forked := e
		forked.Kind, forked.Root, forked.Detail = EventForked, e.Record, ne.forkText(r)
		ne.event(forked)
	}
	ne.reportProvisional(e)
	ne.motions.reportDecisions(e, r)
	ne.reportMembers(e, before, r.Members)
}

// reportMembers reports new members and members that are gone.
func (ne *news) reportMembers(e Event, before, now []slot.Member) {
	if !slices.Equal(keysOf(before), keysOf(now)) {
		changed := e
		changed.Kind = EventMembers
		ne.event(changed)
	}
	for _, gone := range before {
		if _, stays := chain.FindMember(now, gone.Peer, gone.Incarnation); !stays {
			ne.reportGone(e, gone)
		}
	}
	if _, was := chain.FindMember(before, ne.cfg.Self, ne.cfg.Incarnation); !was && e.Height == 1 && ne.member() {
		e.Kind, e.Peer = EventFounded, ne.cfg.Self
		ne.listed, ne.wasMember = true, true
		ne.event(e)
	}
	ne.reportMembership()
}

// reportMembership reports when this peer has become a member, or is none any more, by the newest
// record that it knows of. It does not do so again for each old record while it catches up.
func (ne *news) reportMembership() {
	if len(ne.catchup.ahead()) > 0 {
		return
	}
	_, provisional := ne.chain.Provisional()
	out := ne.chain.Access().Removed(ne.cfg.Self) && !provisional
	// it may have been dropped before its removal was on record, or be removed before the branch
	// that did it is the run for good
	news := out && ne.wasMember && !ne.reportedOut
	if ne.reportedOut = out; ne.listed == ne.member() && !news {
		return
	}
	ne.listed = ne.member()
	ne.wasMember = ne.wasMember || ne.listed
	tip := ne.chain.Tip()
	e := Event{Kind: EventJoined, Height: tip.Height, Slot: tip.Slot, Peer: ne.cfg.Self, Members: peersOf(tip.Members)}
	if !ne.listed {
		e.Kind, e.Reason = EventLeft, ReasonLost
		switch {
		case ne.own.left:
			e.Reason = ReasonLeft
		case out:
			e.Reason, ne.expelled = ReasonRemoved, true
		case ne.charge != "":
			e.Reason, e.Detail = ReasonMute, ne.charge
		}
	}
	if ne.listed || !ne.own.farewell {
		ne.event(e)
	}
}

func (ne *news) reportGone(e Event, gone slot.Member) {
	e.Kind, e.Peer, e.Reason = EventLeft, gone.Peer, ReasonLost
	if a := ne.presence.known[ofMember(gone)]; a != nil && a.leaving {
		e.Reason = ReasonLeft
	}
	if why, fault := ne.turnout.fault(ofMember(gone)); why != "" {
		e.Reason, e.Detail = why, fault
	}
	// reportMembership reports it of this peer itself, if it still holds
	if ne.motions.barred(gone.Peer) && gone.Peer != ne.cfg.Self {
		e.Reason, e.Detail = ReasonRemoved, ""
	}
	if ofMember(gone) == ne.self {
		if ne.own.left = ne.own.leaving; ne.own.left {
			ne.own.mine = nil
		} // else the offer stands: it counts if this peer is listed again in time
		ne.charge = ne.statements.charge(ne.chain.At(e.Height - 1).Members)
		return // reportMembership
	}
	ne.event(e)
}

func (ne *news) forkText(r slot.Record) string {
	text := fmt.Sprintf("%d peers go on from height %d without a quorum of the members that it lists",
		len(r.Electors()), r.Height-1)
	if _, provisional := ne.chain.Provisional(); provisional {
		text += "; provisional until a quorum of them is back"
	}
	return text
}

// reportProvisional reports that a fork is provisional no more, by the newest record.
func (ne *news) reportProvisional(e Event) {
	was := ne.provisional
	if _, ne.provisional = ne.chain.Provisional(); was && !ne.provisional {
		e.Kind, e.Detail = EventConfirmed, "a quorum of the electors before the fork, without those that were "+
			"removed since, is here: the branch is not provisional any more"
		ne.event(e)
	}
}
