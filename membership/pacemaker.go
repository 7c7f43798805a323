package membership

import (
	"slices"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/chain"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// pacemaker decides when a leader has had its time (BYZANTINE 7). When a term is over for an
// elector, it promises the first ballot of the next term, and shows that promise to all members. A
// peer joins the highest ballot that so many electors have promised that the others are no quorum
// any more: where members may lie these are f+1, so one of them is honest, and f liars move nobody
// (a18). The leader of a ballot may draft once a quorum has promised it.
//
// The time of a term above 0 begins when this peer knows that a quorum has reached it. So no
// elector runs ahead of the others by more than one term, whatever its clock says.
//
// In trust crash a term is over when its leader has shown no progress for too long. Where members
// may lie, progress that a leader tells of proves nothing (a6): there it is over after a time that
// this peer takes from slots that it has seen decided. In both, a leader that is gone is not waited
// for.
type pacemaker struct {
	*facts
	*effects
	*height
	presence *presence
	quorum   *quorum
	motions  *motions
	roster   *roster
	pledges  *pledges
	acceptor *acceptor
	planner  *planner
	history  *history
}

// onPromise notes how far an elector has got, and follows if enough have. The leader of the ballot
// is shown the record of the sender's lock, with what proves it.
func (pm *pacemaker) onPromise(msg wire.Message, p wire.Promise) error {
	if err := pm.checkElector(msg); err != nil {
		return err
	}
	if pm.acceptor.answerDecided(msg.From) {
		return ErrStale
	}
	d, mine := pm.open, ofMember(pm.open.leader(p.Ballot)) == pm.self
	if p.Lock != nil && mine {
		if err := pm.checkLocked(p.Locked); err != nil {
			return pm.acceptor.tellRefused(msg, ReasonPromise, err)
		}
	}
	pm.answer(p.Ballot)
	w := memberKey{msg.From, msg.Incarnation}
	if had, ok := d.promised[w]; ok && p.Ballot <= had.ballot {
		return nil // repeated, or older
	}
	shown := promise{
		Promised: wire.Promised{Peer: msg.From, Incarnation: msg.Incarnation, Lock: p.Lock, Sig: msg.Sig},
		ballot:   p.Ballot,
	}
	if mine {
		shown.locked = p.Locked
	}
	d.promised[w] = shown
	pm.join()
	return nil
}

// answer shows the own promise again to those for which work is owed, where none is owed here: they
// may need it for a quorum, and it may have been lost.
func (pm *pacemaker) answer(ballot uint32) {
	floor := pm.pledges.open.Floor()
	if pm.open.owed == never && pm.elector() && floor > 0 && ballot <= floor &&
		pm.now-pm.open.promisedAt >= pm.cfg.Timing.Retry {
		pm.acceptor.showPromise()
	}
}

// checkLocked says whether a promise shows what its lock is about.
func (pm *pacemaker) checkLocked(l *wire.Locked) error {
	if l == nil {
		return chain.Invalid("a promise with a lock and without its record")
	}
	if err := pm.motions.checkRecord(l.Record, l.QC.Ballot); err != nil {
		return err
	}
	return pm.chain.CheckQC(l.QC, l.Record)
}

// reached returns the ballot that an elector has promised, as far as this peer knows.
func (pm *pacemaker) reached(e slot.Member) uint32 {
	if ofMember(e) == pm.self {
		return max(pm.open.ballot, pm.pledges.open.Floor())
	}
	return pm.open.promised[ofMember(e)].ballot
}

// join goes to the highest ballot that can be decided without those that have not promised it, and
// to none below it any more. Where members may lie it also goes to the next term when the leader of
// the followed one has promised that: it resigns. Its promise moves clocks and stands for no other.
// join notes when a quorum has reached the term that this peer follows.
func (pm *pacemaker) join() {
	d, electors := pm.open, pm.chain.Electorate()
	var ballots []uint32
	for _, e := range electors {
		if b := pm.reached(e); b > d.ballot {
			ballots = append(ballots, b)
		}
	}
	if next := (d.term() + 1) * slot.Tries; pm.tolerated() > 0 && pm.reached(d.leader(d.ballot)) == next {
		pm.acceptor.reach(next) // its leader resigns
		return
	}
	slices.Sort(ballots)
	for _, b := range slices.Backward(ballots) {
		if !pm.cfg.Rules.Quorum(electors, func(e slot.Member) bool { return pm.reached(e) < b }) {
			pm.acceptor.reach(b)
			break
		}
	}
	if d.term() > 0 && d.began == never && pm.cfg.Rules.Quorum(electors, func(e slot.Member) bool {
		return d.position(pm.reached(e)).Term() >= d.term()
	}) {
		d.began = pm.now
	}
}

// watch ends the followed term when its leader has had its time, or is gone.
func (pm *pacemaker) watch() {
	d := pm.open
	if !pm.elector() || pm.pledges.open.Decided != nil || !pm.workOwed() {
		d.owed = never
		return
	}
	if d.owed == never {
		d.owed = pm.now
	}
	pm.join() // this peer may have entered the term by its leader's draft
	if pm.expired() || pm.succeeds() {
		pm.next()
		return
	}
	if pm.pledges.open.Floor() > 0 && pm.now-d.promisedAt >= pm.cfg.Timing.Retry {
		pm.acceptor.showPromise()
	}
}

// next goes to the next term.
func (pm *pacemaker) next() {
	pm.acceptor.reach((pm.open.term() + 1) * slot.Tries)
}

// counting says since when the followed term's time runs; false while it does not.
func (pm *pacemaker) counting() (since time.Duration, runs bool) {
	d := pm.open
	if d.owed == never || d.term() > 0 && d.began == never {
		return never, false
	}
	return max(d.owed, d.began), true
}

// expired says whether the followed leader has had its time.
func (pm *pacemaker) expired() bool {
	since, runs := pm.counting()
	switch {
	case !runs:
		return false
	case pm.cfg.Rules.Byzantine:
		return pm.now-since >= pm.length() && !pm.leadsUnaware()
	case pm.acceptor.leadsPrepared() && !pm.isPassed() && (pm.reducing() || !pm.exhausted()):
		return false // it is asked for nothing that another leader could do better
	}
	return pm.now-max(since, pm.open.life) >= pm.length()
}

// leadsUnaware says whether this peer leads a step and, as after a restart, does not know how long
// one takes here. Others may know, and give it longer than it would give itself. So it goes on
// until one of them has promised a higher ballot.
func (pm *pacemaker) leadsUnaware() bool {
	return pm.stepOwed() && pm.history.usualStep() == 0 && pm.acceptor.leadsPrepared() && !pm.isPassed()
}

// length is how long the followed term's leader has: in trust crash to show some progress, else to
// get its record decided. It doubles with the term (HOLES H18): some leader gets long enough.
func (pm *pacemaker) length() time.Duration {
	t, term := pm.cfg.Timing, pm.open.term()
	switch {
	case !pm.cfg.Rules.Byzantine:
		return t.Patience << min(term, 5)
	case pm.stepOwed():
		return pm.history.stepTerm(term)
	}
	return pm.history.doubled(t.Patience, term)
}

// isPassed says whether an elector that this leader needs has promised a higher ballot: its vote is
// lost here, or its part of the reduction.
func (pm *pacemaker) isPassed() bool {
	l := pm.open.lead
	return slices.ContainsFunc(pm.chain.Electorate(), func(e slot.Member) bool {
		if pm.reached(e) <= pm.open.ballot {
			return false
		}
		if !pm.reducing() {
			return true
		}
		i := l.plan.Place(e.Peer)
		return i >= 0 && !l.plan.Gone.Has(i)
	})
}

// exhausted says whether the term has no further try.
func (pm *pacemaker) exhausted() bool { return (pm.open.ballot+1)%slot.Tries == 0 }

// reducing says whether the reduction of this peer's plan runs. A leader that does not contribute
// sees nothing of it.
func (pm *pacemaker) reducing() bool {
	l := pm.open.lead
	return l.plan != nil && l.draft == nil && l.proposal == nil
}

// succeeds says whether the followed leader is gone, was removed, or went to another branch: then
// nobody waits for its time to be over. A peer that hears no quorum is more likely the one that was
// cut off.
func (pm *pacemaker) succeeds() bool {
	leader := ofMember(pm.open.leader(pm.open.ballot))
	gone := !pm.presence.around(leader) || pm.presence.onAnotherBranch(leader) || pm.motions.barred(leader.peer)
	_, runs := pm.counting()
	return gone && runs && pm.quorum.heard()
}

// accessTimeouts is the number of Timing.Patience for which a draft of an access record counts as
// progress. The leader gives up a draft that too few can answer after one of them, and tries again
// four later.
const accessTimeouts = 6

// workOwed says whether the leader owes work. Only then does its time run, so that healthy leaders
// are not deposed during inner steps. The leader owes nothing for a draft of a members record that
// it dropped again.
func (pm *pacemaker) workOwed() bool {
	return pm.stepOwed() || pm.open.proposal != nil || pm.pledges.open.Vote != nil || pm.closingDue() || pm.recordDue()
}

// stepOwed says whether the work that is owed is a step.
func (pm *pacemaker) stepOwed() bool {
	d, vote := pm.open, pm.pledges.open.Vote
	return d.plan != nil || d.draft != nil && d.draft.Record.Kind == slot.Step ||
		vote != nil && vote.Record.Kind == slot.Step || pm.answered() || pm.planner.planDue()
}

// answered says whether this peer has given HAVE for a step that may still be decided without new
// offers. After a restart it knows of the step by nothing else. Once so many terms have gone by
// that a leader that works was among their leaders, the outcome was lost, and the slot begins anew.
func (pm *pacemaker) answered() bool {
	have, n := pm.pledges.open.Have, len(pm.chain.Electorate())
	return have != nil && have.Record.Kind == slot.Step && int(pm.open.term()) <= n-pm.cfg.Rules.Votes(n)
}

// recordDue says whether the leader owes a record without a step.
func (pm *pacemaker) recordDue() bool {
	return pm.membersDue() || pm.motions.accessDue() && pm.now-pm.open.accessAt >= accessTimeouts*pm.cfg.Timing.Patience
}

// draftsAPause is the number of drafts of members records at one height after which the pause
// between them doubles.
const draftsAPause = 4

// membersDue says whether a join, leave or loss waits to be recorded.
func (pm *pacemaker) membersDue() bool {
	if pm.chain.Height() == 0 || pm.chain.Ended() {
		return false
	}
	// A newcomer that never sends HAVE must not keep the members busy: the pauses between drafts
	// for it grow, and half the tries of a term are for the slot, whose record lists newcomers,
	// too.
	d := pm.open
	pause := pm.cfg.Timing.Retry << min(d.drafts/draftsAPause, 6)
	if !pm.acceptor.leadsPrepared() {
		pause += pm.cfg.Timing.Lost // for so long the leader drafts without those that were silent
	}
	ready := func(a *contact) bool {
		return pm.now-d.draftAt >= pause && pm.roster.spares(d.ballot, d.draftAt) && pm.roster.ready(a)
	}
	return pm.roster.changeDue(ready)
}
