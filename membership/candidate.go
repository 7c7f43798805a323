package membership

import (
	"cmp"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/chain"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// candidate watches the leader, and asks to lead when the leader shows no progress for too long.
type candidate struct {
	*facts
	*effects
	*height
	presence *presence
	proofs   *proofs
	quorum   *quorum
	motions  *motions
	model    *model
	roster   *roster
	pledges  *pledges
	acceptor *acceptor
	planner  *planner
}

// onPromise gathers promises for the ballot that this peer wants to lead. It notes members that
// cannot promise it.
func (ca *candidate) onPromise(msg wire.Message, p wire.Promise) error {
	if err := ca.from(msg); err != nil {
		return err
	}
	d, l := ca.open, ca.open.lead
	switch {
	case l == nil || p.Ballot < l.ref.Ballot || p.Ballot > l.ref.Ballot+maxBallotStep/2:
		// a ballot above it is to be in others' reach
		return ErrStale
	case p.Ballot > l.ref.Ballot: // it promised another candidate, and is lost to this ballot
		d.seen = max(d.seen, p.Ballot)
		return nil
	}
	if p.Lock != nil {
		if p.Locked == nil {
			return chain.Invalid("a promise with a lock and without its record")
		}
		if err := ca.motions.checkRecord(p.Locked.Record); err != nil {
			return err
		}
		if err := ca.chain.CheckQC(p.Locked.QC, p.Locked.Record); err != nil {
			return err
		}
	}
	l.promises[msg.From] = promise{
		wire.Promised{Peer: msg.From, Incarnation: msg.Incarnation, Lock: p.Lock, Sig: msg.Sig}, p.Locked,
	}
	return nil
}

// choose lets this peer draft once a quorum has promised. If any of the promises names a lock, the
// record of the highest is drafted again, unchanged; else the choice is free (HOLES H3). A lock
// counts with its QC only, and the voters see the promises and the QC themselves (BYZANTINE m4, m8,
// m9).
func (ca *candidate) choose() bool {
	l := ca.open.lead
	promised := func(e slot.Member) bool { _, ok := l.promises[e.Peer]; return ok }
	if !ca.chain.Rules().Quorum(ca.chain.Electorate(), promised) {
		return false
	}
	l.prepared = true
	for _, e := range ca.chain.Electorate() { // sorted by peer
		p, ok := l.promises[e.Peer]
		if !ok {
			continue
		}
		l.grounds.Promises = append(l.grounds.Promises, p.Promised)
		if p.locked != nil && (l.forced == nil || p.Lock.Ballot > l.forced.QC.Ballot) {
			l.forced = p.locked
			l.grounds.QC = &p.locked.QC
		}
	}
	return true
}

// draftsAPause is the number of drafts of members records at one height after which the pause
// between them doubles.
const draftsAPause = 4

// accessTimeouts is the number of Timing.Patience for which a draft of an access record counts as
// progress. The leader gives up a draft that too few can answer after one of them, and tries again
// four later.
const accessTimeouts = 6

// workOwed says whether the leader owes work. Only then does its timeout run, so that healthy
// leaders are not deposed during inner steps. The leader owes nothing for a draft of a members
// record that it dropped again.
func (ca *candidate) workOwed() bool {
	d := ca.open
	return d.plan != nil || d.draft != nil && d.draft.Record.Kind == slot.Step || d.proposal != nil ||
		ca.pledges.open.Vote != nil ||
		ca.closingDue() || ca.planner.planDue() || ca.recordDue()
}

// watchLeader counts how long owed work shows no progress. The k-th candidate after the leader, of
// those that are heard, waits k times the leaderTimeout, so that they do not outbid each other.
func (ca *candidate) watchLeader() {
	d := ca.open
	if !ca.elector() || !ca.workOwed() || ca.motions.barred(ca.cfg.Self) || ca.pledges.open.Decided != nil {
		d.owed = never
		return
	}
	if d.owed == never {
		d.owed = ca.now
	}
	exhausted := (d.ballot+1)%slot.Tries == 0
	if ca.acceptor.leadsPrepared() && (d.seen == d.ballot && !exhausted || ca.reducing()) {
		return
	}
	wait := ca.acceptor.leaderTimeout() * time.Duration(ca.turn())
	if ca.now-max(d.owed, d.life, d.campaign) >= wait || ca.succeeds() {
		ca.openBallot()
	}
}

// succeeds says whether it is this peer's turn after a leader that is gone, was removed, or went to
// another branch. That needs no timeout: the first candidate goes ahead at once, and each further
// one twice Timing.Gone later (Timing.Retry where Gone is 0), since two peers may differ by so much
// in when they saw it. A peer that hears no quorum is more likely the one that was cut off.
func (ca *candidate) succeeds() bool {
	d := ca.open
	leader := ofMember(d.leader(d.ballot))
	since, gone := ca.presence.goneSince(leader)
	gone = gone || ca.presence.onAnotherBranch(leader) || ca.motions.barred(leader.peer)
	step := cmp.Or(2*ca.cfg.Timing.Gone, ca.cfg.Timing.Retry)
	return gone && ca.now-max(d.owed, since, d.campaign) >= step*time.Duration(ca.turn()-1) &&
		ca.quorum.heard()
}

// reducing says whether the reduction of this peer's plan runs. A leader that does not contribute
// sees nothing of it.
func (ca *candidate) reducing() bool {
	l := ca.open.lead
	return l.plan != nil && l.draft == nil && l.proposal == nil
}

// turn counts, from 1, this peer's place among the heard members after the followed leader.
func (ca *candidate) turn() int {
	d := ca.open
	n := len(d.order)
	k := 0
	for i := 1; i <= n; i++ {
		e := d.order[(int(d.term())+i)%n]
		if ca.presence.around(ofMember(e)) && !ca.motions.barred(e.Peer) {
			k++
		}
		if ofMember(e) == ca.self {
			break
		}
	}
	return max(k, 1)
}

// openBallot makes this peer a candidate, in the lowest of its terms above all that it has seen.
func (ca *candidate) openBallot() {
	d := ca.open
	if !ca.model.atTip() {
		return
	}
	b := (d.at(d.seen).Term() + 1) * slot.Tries
	for ofMember(d.leader(b)) != ca.self {
		b += slot.Tries
	}
	d.seen, d.campaign = b, ca.now
	d.lead = newLeading(d.at(b), ca.boot)
	ca.sendPrepare()
}

// sendPrepare asks the electors that have not promised yet.
func (ca *candidate) sendPrepare() {
	l := ca.open.lead
	l.sentAt = ca.now
	ca.send(wire.Prepare{Ref: l.ref}, ca.electorsWithout(func(p slot.PeerID) bool {
		_,
			ok := l.promises[p]
		return ok
	})...)
}

// recordDue says whether the leader owes a record without a step.
func (ca *candidate) recordDue() bool {
	return ca.membersDue() || ca.motions.accessDue() && ca.now-ca.open.accessAt >= accessTimeouts*ca.cfg.Timing.Patience
}

// membersDue says whether a join, leave or loss waits to be recorded.
func (ca *candidate) membersDue() bool {
	if ca.chain.Height() == 0 || ca.chain.Ended() {
		return false
	}
	// A newcomer that never sends HAVE must not keep the members busy: the pauses between drafts
	// for it grow, and half the tries of a term are for the slot, whose record lists newcomers,
	// too.
	d := ca.open
	pause := ca.cfg.Timing.Retry << min(d.drafts/draftsAPause, 6)
	if !ca.acceptor.leadsPrepared() {
		pause += ca.cfg.Timing.Lost // for so long the leader drafts without those that were silent
	}
	ready := func(a *contact) bool {
		return ca.now-d.draftAt >= pause && ca.roster.spares(d.ballot, d.draftAt) && ca.roster.ready(a)
	}
	return ca.roster.changeDue(ready)
}
