package membership

import (
	"slices"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/chain"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// drafter makes the outcome that the leader wants to propose, and counts the peers that hold it.
type drafter struct {
	*facts
	*effects
	*height
	presence *presence
	proofs   *proofs
	motions  *motions
	model    *model
	roster   *roster
	planner  *planner
}

// draftStep turns the plan's statements into a draft: contributions are those in at least one
// segment.
func (dr *drafter) draftStep(segments []slot.Segment) {
	l := dr.open.lead
	used := slot.NewBitmap(len(l.plan.Offers))
	for _, s := range segments {
		for i := range used {
			used[i] |= s.Contributors[i]
		}
	}
	var contributions []slot.Offer
	place := make([]int, len(l.plan.Offers))
	for i, o := range l.plan.Offers {
		if used.Has(i) {
			place[i] = len(contributions)
			contributions = append(contributions, o)
		}
	}
	if dr.chain.CheckOutcome(l.plan.Fragment, contributions, reindexed(segments, place, len(contributions))) != nil {
		dr.planner.giveUpPlan()
		return
	}
	dr.openDraft(slot.Draft{
		Ref: l.ref, Revision: l.revision, Kind: slot.Step, Slot: l.plan.Slot, Fragment: l.plan.Fragment,
		Contributions: contributions, Segments: reindexed(segments, place, len(contributions)),
	})
}

// reindexed changes the contributor sets from indices of the plan's offers to indices of the n
// contributions; place maps them.
func reindexed(segments []slot.Segment, place []int, n int) []slot.Segment {
	out := slices.Clone(segments)
	for i := range out {
		set := slot.NewBitmap(n)
		for j := range place {
			if segments[i].Contributors.Has(j) {
				set.Set(place[j])
			}
		}
		out[i].Contributors = set
	}
	return out
}

// draftMembers asks which peers hold the state, for a record without a step.
func (dr *drafter) draftMembers() {
	l := dr.open.lead
	l.revision++
	l.plan, l.membersAt = nil, dr.now+dr.cfg.Timing.Retry
	d := slot.Draft{Kind: slot.Members}
	if dr.motions.draftsAccess() {
		d = dr.motions.accessDraft()
	}
	d.Ref, d.Revision, d.Slot = l.ref, l.revision, dr.chain.Tip().Slot
	dr.openDraft(d)
}

func (dr *drafter) openDraft(d slot.Draft) {
	l := dr.open.lead
	l.draft, l.draftAt, l.haves = &d, dr.now, map[memberKey]bool{}
	dr.event(Event{Kind: EventDrafted, Height: d.Height, Slot: d.Slot, Ballot: d.Ballot, RecordKind: d.Kind})
	dr.sendDraft()
}

// sendDraft sends the draft to the members and the newcomers that have not sent HAVE.
func (dr *drafter) sendDraft() {
	l := dr.open.lead
	l.sentAt = dr.now
	var to []slot.PeerID
	for _, e := range dr.chain.Members() {
		if !l.haves[ofMember(e)] {
			to = append(to, e.Peer)
		}
	}
	for _, a := range dr.roster.admissible() {
		if !l.haves[a.memberKey] {
			to = append(to, a.peer)
		}
	}
	dr.send(wire.Draft{Draft: *l.draft, Proofs: dr.proofs.of(l.draft.Contributions)}, union(to)...)
}

// onHave counts a peer that holds the draft's outcome, and the same state after the record before
// it. The HAVE of a diverged member does not count.
func (dr *drafter) onHave(msg wire.Message, h wire.Have) error {
	l := dr.open.lead
	if l == nil || l.draft == nil || h.Ref != l.ref || h.Outcome != l.draft.Outcome() {
		return ErrStale
	}
	w := memberKey{msg.From, msg.Incarnation}
	if dr.presence.known[w] == nil {
		return ErrSender
	}
	if !dr.model.atTip() || h.StateRoot != dr.model.state.root {
		return chain.Invalid("a HAVE on another state")
	}
	l.haves[w] = true
	return nil
}

// proposeDraft returns the draft's record once a quorum of the new members has sent HAVE (HOLES
// H11): whichever of the old members is lost then, a living quorum of the new ones includes a
// holder of the outcome. For a next secret, a quorum of the electors must have sent it, too. Other
// outcomes are fetched by each member that votes, but a member that is to be removed votes without
// the secret.
func (dr *drafter) proposeDraft() (r slot.Record, ok bool) {
	l := dr.open.lead
	r = dr.recordOf(*l.draft)
	if l.draft.Kind == slot.Access && (dr.now-l.draftAt >= dr.cfg.Timing.Patience || dr.chain.Check(r) != nil) {
		// a motion was taken back; or no slot waits for a secret that too few can fetch
		l.draft, dr.motions.pauseAt = nil, dr.now
		return r, false
	}
	holds := func(e slot.Member) bool { return l.haves[ofMember(e)] }
	quorum := dr.cfg.Rules.Quorum
	if !quorum(r.Electors(), holds) || !l.draft.Key.IsZero() && !quorum(dr.chain.Electorate(), holds) {
		if l.plan != nil {
			dr.reviseDraft()
		}
		return r, false
	}
	if dr.awaitsNewcomer(r) {
		return r, false
	}
	if r.Kind == slot.Members && !dr.closingDue() && slices.Equal(r.Members, dr.chain.Members()) {
		l.draft = nil // nothing changes: the newcomer did not answer, or the lost one is back
		return r, false
	}
	if dr.chain.Check(r) != nil || !l.draft.Outcome().IsZero() && !dr.open.outcomes[l.draft.Outcome()] {
		return r, false
	}
	return r, true
}

// reviseDraft gives up a draft whose bytes may be gone with their owners, for a revision of its
// plan. If a living peer has them all, everybody can have them, and failed connections do not
// matter any more. Owners of bytes that no peer has still matter.
func (dr *drafter) reviseDraft() {
	reports := dr.open.lead.reports
	if dr.draftIsHeld() {
		reports = slices.DeleteFunc(slices.Clone(reports), func(r report) bool { return r.reason != wire.LostOutcome })
		if len(reports) == 0 {
			return
		}
	}
	dr.planner.reviseIfLost(reports)
}

// draftIsHeld says whether a member that is heard has all of the draft's outcome.
func (dr *drafter) draftIsHeld() bool {
	return slices.ContainsFunc(dr.chain.Members(), func(e slot.Member) bool {
		return dr.open.lead.haves[ofMember(e)] && dr.presence.around(ofMember(e))
	})
}

// recordOf makes the record that a draft leads to, with the members as they are heard now.
func (dr *drafter) recordOf(d slot.Draft) slot.Record {
	return dr.roster.settle(slot.Record{
		Run: dr.cfg.Rules.Run, Height: d.Height, Kind: d.Kind, Prev: d.Prev, Slot: d.Slot,
		StateRoot: dr.model.state.root,
		Work:      dr.chain.WorkAfter(d.Kind, d.Contributions), Fragment: d.Fragment, Contributions: d.Contributions,
		Segments: d.Segments,
		Key:      d.Key, Decisions: d.Decisions,
	}, func(a *contact) bool { return dr.open.lead.haves[a.memberKey] })
}

// awaitsNewcomer gives newcomers that stand at the tip a moment to send HAVE. No joiner blocks a
// slot: one that lets a step's moment pass gets no other at steps for Timing.Lost. Drafts of
// members records wait for it still: they hold up nobody, and not every newcomer can fetch an
// outcome within the moment.
func (dr *drafter) awaitsNewcomer(r slot.Record) bool {
	l := dr.open.lead
	step, over := l.draft.Kind == slot.Step, dr.now-l.draftAt >= dr.cfg.Timing.Beat
	for _, a := range append(dr.roster.admissible(), dr.roster.entrant(r)...) {
		switch {
		case !dr.presence.atOurTip(a) || l.haves[a.memberKey]:
		case step && dr.now-a.silentAt <= dr.cfg.Timing.Lost:
		case !over:
			return true
		case step:
			a.silentAt = dr.now
		}
	}
	return false
}
