package membership

import (
	"slices"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/chain"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// leader does the work of the open height's leader.
type leader struct {
	*facts
	*effects
	*height
	presence  *presence
	proofs    *proofs
	quorum    *quorum
	motions   *motions
	model     *model
	roster    *roster
	pledges   *pledges
	acceptor  *acceptor
	planner   *planner
	drafter   *drafter
	pacemaker *pacemaker
}

// resumeLead takes up the lead that this peer has at the open height. That is ballot 0, while
// nothing is promised above it, or the ballot in which it drafted, proposed or asked for promises
// before it restarted. In that ballot it drafts and proposes the same record again and no other
// (HOLES H5).
func (le *leader) resumeLead() {
	d, own := le.open, le.pledges.open
	floor := own.Floor()
	if own.Decided != nil || ofMember(d.leader(floor)) != le.self {
		return
	}
	switch {
	case own.Have != nil && own.Have.Ballot == floor:
		d.lead = newLeading(own.Have.Ref, le.boot, le.now)
		l := d.lead
		l.prepared, l.grounds = true, own.Have.Grounds
		l.draft, l.draftAt = &wire.Draft{
			Vote: slot.Vote{Ref: l.ref, Hash: own.Have.Record.Hash()}, Drafted: own.Have.Drafted,
		}, le.now
		l.gather(l.draft.Hash)
		if q := l.grounds.QC; q != nil {
			le.drafter.carry(*q)
		}
		if own.Vote != nil && own.Vote.Ballot == floor {
			l.proposal, l.votes = &own.Vote.QC, map[slot.PeerID][]byte{}
		}
	case floor == 0:
		d.lead = newLeading(d.ref, le.boot, le.now)
		d.lead.prepared = true
	}
}

// takeLead makes this peer the leader of the ballot that it has promised, if it is its turn and it
// has drafted nothing there.
func (le *leader) takeLead() {
	d, own := le.open, le.pledges.open
	floor := own.Floor()
	if d.lead != nil && d.lead.ref.Ballot < floor {
		d.lead = nil
	}
	if d.lead == nil && floor > 0 && floor == d.ballot && ofMember(d.leader(floor)) == le.self &&
		own.Promise != nil && own.Promise.Ballot == floor && (own.Have == nil || own.Have.Ballot < floor) &&
		own.Decided == nil {
		d.lead = newLeading(d.position(floor), le.boot, le.now)
	}
}

// choose lets this peer draft once a quorum has promised its ballot. If any of the promises names a
// lock, the record of the highest is drafted again, unchanged; else the choice is free (HOLES H3).
// A lock counts with its QC only, and the voters see the promises and the QC themselves (BYZANTINE
// m4, m8, m9).
func (le *leader) choose() bool {
	d, l := le.open, le.open.lead
	promised := func(e slot.Member) bool {
		p, ok := d.promised[ofMember(e)]
		return ok && p.ballot == l.ref.Ballot && (p.Lock == nil || p.locked != nil && p.Lock.Ballot < l.ref.Ballot)
	}
	if !le.chain.Rules().Quorum(le.chain.Electorate(), promised) {
		return false
	}
	l.prepared = true
	for _, e := range le.chain.Electorate() { // sorted by peer
		if !promised(e) {
			continue
		}
		p := d.promised[ofMember(e)]
		l.grounds.Promises = append(l.grounds.Promises, p.Promised)
		if p.locked != nil && (l.forced == nil || p.Lock.Ballot > l.forced.QC.Ballot) {
			l.forced = p.locked
			l.grounds.QC = &p.locked.QC
		}
	}
	return true
}

// sendRetry asks the electors that have not promised the next ballot of this leader's term yet.
func (le *leader) sendRetry() {
	l := le.open.lead
	l.sentAt = le.now
	if l.ref.Ballot%slot.Tries == 0 {
		return // electors promise a term's first ballot by their own clocks, and repeat it
	}
	le.send(wire.Retry{Ref: l.ref}, le.electorsWithout(func(p slot.PeerID) bool {
		return slices.ContainsFunc(le.chain.Electorate(), func(e slot.Member) bool {
			return e.Peer == p && le.open.promised[ofMember(e)].ballot >= l.ref.Ballot
		})
	})...)
}

// lead does the leader's next step, if this peer leads.
func (le *leader) lead() {
	le.takeLead()
	l := le.open.lead
	if l == nil || l.decided || !l.prepared && !le.choose() {
		return
	}
	switch {
	case l.proposal != nil: // waits for votes
	case l.draft != nil:
		if q, ok := le.drafter.complete(); ok {
			le.propose(q)
		}
	case l.forced != nil:
		le.drafter.draftAgain()
	case !le.model.atTip() && le.open.owed != never && le.now-max(l.since, le.open.owed) >= le.cfg.Timing.Lost &&
		len(le.presence.sorted(le.presence.showsTip)) > 0 && // else all are at it
		le.planner.resign("it does not hold the newest state"):
	case !le.model.atTip() || !le.quorum.heard(): // nothing that it starts now can be decided
	case l.plan != nil:
		le.closePlan()
	default:
		le.startWork()
	}
}

// startWork starts the work that is owed: the closing record, a step, or a change of members.
func (le *leader) startWork() {
	l := le.open.lead
	switch {
	case le.closingDue():
		le.drafter.draftMembers()
	case le.roster.beginsWithSeats() && le.pacemaker.membersDue() && le.now >= l.membersAt:
		le.drafter.draftMembers()
	case le.motions.accessDue() && le.motions.barred(le.cfg.Self):
		// others take over, because this peer must not choose their secret
	case le.goesOn():
		le.planner.continuePlan()
	case le.motions.draftsAccess() && le.now >= l.membersAt:
		le.drafter.draftMembers()
	case le.planner.planDue() && le.now >= max(l.holdOff, le.open.short.until):
		le.planner.startPlan()
	case le.pacemaker.membersDue() && le.now >= l.membersAt:
		le.drafter.draftMembers()
	}
}

// goesOn says whether the plan that was at work before goes on under this leader.
func (le *leader) goesOn() bool {
	l, last := le.open.lead, le.open.last
	if last == nil || slices.Contains([]slot.Root{l.givenUp, le.open.short.group}, last.Group()) ||
		!le.chain.TakesStep() || !le.proofs.has(last.Offers) ||
		len(le.planner.withoutHiders(last.Offers)) < len(last.Offers) {
		return false
	}
	return !le.planner.lacks(*last)
}

// propose puts the draft to the vote. The leader's own vote is on disk first (H5).
func (le *leader) propose(q wire.QC) {
	l := le.open.lead
	l.proposal, l.votes, l.plan = &q, map[slot.PeerID][]byte{}, nil
	le.reportRecord(EventProposed, l.draft.Record, l.ref.Ballot)
	le.acceptor.lock(q, l.draft.Drafted)
	le.sendProposal()
}

// sendProposal sends the QC to the electors that have not voted, and again the draft to those that
// may lack it.
func (le *leader) sendProposal() {
	l := le.open.lead
	l.sentAt = le.now
	var to, lack []slot.PeerID
	for _, e := range le.chain.Electorate() {
		if _, voted := l.votes[e.Peer]; voted || e.Peer == le.cfg.Self {
			continue
		}
		to = append(to, e.Peer)
		if h, ok := l.haves[ofMember(e)]; !ok || h.Ballot < l.ref.Ballot {
			lack = append(lack, e.Peer)
		}
	}
	if _, voted := l.votes[le.cfg.Self]; !voted {
		le.acceptor.sendVote()
	}
	if len(lack) > 0 && le.now-l.draftAt >= le.cfg.Timing.Retry {
		le.send(*l.draft, lack...)
	}
	le.send(wire.Propose{Vote: l.draft.Vote, QC: l.proposal}, to...)
}

// onVote counts the votes for the own proposal in its ballot. A quorum of them is the certificate.
func (le *leader) onVote(msg wire.Message, v slot.Vote) error {
	if err := le.checkElector(msg); err != nil {
		return err
	}
	l := le.open.lead
	if l == nil || l.proposal == nil || v.Ref != l.ref {
		return ErrStale
	}
	if v.Hash != l.proposal.Hash {
		return chain.Invalid("a vote for a record that was not proposed")
	}
	l.votes[msg.From] = msg.Sig
	voted := func(e slot.Member) bool { return l.votes[e.Peer] != nil }
	if !l.decided && le.chain.Rules().Quorum(le.chain.Electorate(), voted) {
		l.decided = true
		le.commit(v)
	}
	return nil
}

// commit sends the certificate to all peers that it concerns. This peer is one of them: the record
// is adopted like anybody's.
func (le *leader) commit(v slot.Vote) {
	l := le.open.lead
	c := wire.Commit{Record: l.draft.Record, Certificate: certificate(v, l.votes)}
	hold, lack := split(le.firstReceivers(c), le.holdsDraft)
	for _, d := range c.Record.Decisions { // a peer that was dropped before learns why
		if d.Action == slot.Remove && slot.Find(le.chain.Members(), d.Peer) < 0 {
			le.send(c, d.Peer)
		}
	}
	le.sendForms(wire.Envelope{
		To: lack, Gossip: true, Body: c, Brief: wire.Commit{Certificate: c.Certificate}, BriefTo: hold,
	})
}

// holdsDraft says whether another peer has shown in this ballot that it holds the draft's record:
// HAVE and VOTE are bound to it, on disk.
func (le *leader) holdsDraft(p slot.PeerID) bool {
	l := le.open.lead
	if p == le.cfg.Self {
		return false
	}
	if l.votes[p] != nil {
		return true
	}
	members := slices.Concat(le.chain.Electorate(), l.draft.Record.Electors())
	return slices.ContainsFunc(members, func(e slot.Member) bool {
		h, ok := l.haves[ofMember(e)]
		return e.Peer == p && ok && h.Ballot == l.ref.Ballot
	})
}

// repeatAsLeader repeats the messages that were not answered within Timing.Retry.
func (le *leader) repeatAsLeader() {
	l := le.open.lead
	if l == nil || le.now-l.sentAt < le.cfg.Timing.Retry {
		return
	}
	switch {
	case l.decided:
		l.decided = false // the own COMMIT was not signed in time; the next vote makes it again
		le.sendProposal()
	case !l.prepared:
		le.sendRetry()
	case l.proposal != nil:
		le.sendProposal()
	case l.draft != nil:
		le.drafter.sendDraft()
	case l.plan != nil:
		le.planner.sendPlan()
	}
}

// beat shows the electors that this leader makes progress. Counters rise only with real progress.
func (le *leader) beat() {
	l := le.open.lead
	if l == nil || !l.prepared || le.now-l.beatAt < le.cfg.Timing.Beat || l.plan == nil && l.draft == nil &&
		l.proposal == nil {
		return
	}
	l.beatAt = le.now
	le.send(wire.Beat{
		Ref: l.ref, Revision: l.revision, Offers: uint32(len(le.presence.offers())), Bytes: le.open.bytes,
		Haves: uint32(len(l.haves)),
		Votes: uint32(len(l.votes)), Segments: uint32(len(l.segments)),
	}, peersOf(le.chain.Electorate())...)
}

// closePlan drafts the outcome once the statements cover the fragment, or revises the plan without
// the peers that failed.
func (le *leader) closePlan() {
	l := le.open.lead
	if le.roster.fragile() {
		le.drafter.draftMembers()
		return
	}
	if le.planner.reviseIfLost(l.reports) {
		return
	}
	if segments, ok := l.stated(slot.Range{End: le.chain.Rules().Elements(l.plan.Slot)}); ok {
		le.drafter.draftStep(segments)
		return
	}
	if le.planner.ringHangs() {
		le.planner.giveUpRing(*l.plan)
		return
	}
	if out := le.planner.owingOwners(); len(out) > 0 {
		l.leftOutSilent++
		le.planner.leaveOut(out)
	}
}
