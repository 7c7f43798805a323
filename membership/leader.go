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
	candidate *candidate
}

// resumeLead takes up the lead that this peer has at the open height without asking. That is ballot
// 0, while nothing is promised above it, or the ballot in which it proposed before it restarted. In
// that ballot it proposes the same record again and no other (HOLES H5).
func (le *leader) resumeLead() {
	d := le.open
	self := func(b uint32) bool { return ofMember(d.leader(b)) == le.self }
	switch v := le.pledges.open.Vote; {
	case v != nil && v.Ballot == le.pledges.open.Floor() && self(v.Ballot):
		d.lead = newLeading(v.Ref, le.boot)
		d.lead.prepared, d.lead.proposal, d.lead.votes = true, &v.Record, map[slot.PeerID][]byte{}
	case v == nil && le.pledges.open.Floor() == 0 && self(0):
		d.lead = newLeading(d.ref, le.boot)
		d.lead.prepared = true
	}
}

// lead does the leader's next step, if this peer leads.
func (le *leader) lead() {
	l := le.open.lead
	if l == nil || l.decided {
		return
	}
	if l.ref.Ballot < le.pledges.open.Floor() {
		le.open.lead = nil
		return
	}
	if !l.prepared && !le.candidate.choose() {
		return
	}
	switch {
	case l.proposal != nil: // waits for votes
	case l.forced != nil:
		if r, ok := le.candidate.proposeAgain(); ok {
			le.propose(r)
		}
	case !le.model.atTip() || !le.quorum.heard(): // nothing that it starts now can be decided
	case l.draft != nil:
		if r, ok := le.drafter.proposeDraft(); ok {
			le.propose(r)
		}
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
	case le.roster.beginsWithSeats() && le.candidate.membersDue() && le.now >= l.membersAt:
		le.drafter.draftMembers()
	case le.motions.accessDue() && le.motions.barred(le.cfg.Self):
		// others take over, because this peer must not choose their secret
	case le.open.last != nil && le.open.last.Group() != l.givenUp && le.chain.TakesStep() &&
		le.proofs.has(le.open.last.Offers):
		le.planner.continuePlan()
	case le.motions.draftsAccess() && le.now >= l.membersAt:
		le.drafter.draftMembers()
	case le.planner.planDue() && le.now >= l.holdOff:
		le.planner.startPlan()
	case le.candidate.membersDue() && le.now >= l.membersAt:
		le.drafter.draftMembers()
	}
}

// propose puts the record to the vote, once a ballot (HOLES H1). The proposal is the leader's own
// vote, and on disk first (H5).
func (le *leader) propose(r slot.Record) {
	l := le.open.lead
	l.proposal, l.votes, l.draft, l.plan = &r, map[slot.PeerID][]byte{}, nil, nil
	le.reportRecord(EventProposed, r, l.ref.Ballot)
	le.acceptor.recordVote(l.ref.Ballot, r)
	le.sendProposal()
}

func (le *leader) sendProposal() {
	l := le.open.lead
	l.sentAt = le.now
	voted := func(p slot.PeerID) bool { _, ok := l.votes[p]; return ok }
	to := le.electorsWithout(voted)
	if slices.Contains(to, le.cfg.Self) {
		to = without(to, le.cfg.Self)
		le.acceptor.sendVote()
	}
	proofs := le.proofs.of(l.proposal.Contributions)
	le.send(wire.Propose{Ballot: l.ref.Ballot, Record: *l.proposal, Proofs: proofs}, to...)
}

// onVote counts the votes for the own proposal in its ballot. A quorum of them is the certificate.
func (le *leader) onVote(msg wire.Message, v slot.Vote) error {
	if err := le.from(msg); err != nil {
		return err
	}
	l := le.open.lead
	if l == nil || l.proposal == nil || v.Ref != l.ref {
		return ErrStale
	}
	if v.Hash != l.proposal.Hash() {
		return chain.Invalid("a vote for a record that was not proposed")
	}
	l.votes[msg.From] = msg.Sig
	voted := func(e slot.Member) bool { return l.votes[e.Peer] != nil }
	if !l.decided && le.cfg.Rules.Quorum(le.chain.Electorate(), voted) {
		l.decided = true
		le.commit(v)
	}
	return nil
}

// commit sends the certificate to all peers that it concerns. This peer is one of them: the record
// is adopted like anybody's.
func (le *leader) commit(v slot.Vote) {
	l := le.open.lead
	c := wire.Commit{Record: *l.proposal, Certificate: certificate(v, l.votes)}
	for _, d := range c.Record.Decisions { // a peer that was dropped before learns why
		if d.Action == slot.Remove && slot.Find(le.chain.Members(), d.Peer) < 0 {
			le.send(c, d.Peer)
		}
	}
	le.gossip(c, le.firstReceivers(c)...)
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
		le.candidate.sendPrepare()
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
	if out := le.planner.silent(); len(out) > 0 {
		l.leftOutSilent = true
		le.planner.leaveOut(out)
	}
}
