package membership

import (
	"slices"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// draftStep turns the plan's statements into a draft: contributions are those in at least one segment.
func (m *Machine) draftStep(segments []slot.Segment) {
	l := m.open.lead
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
	if m.chain.checkOutcome(l.plan.Fragment, contributions, reindexed(segments, place, len(contributions))) != nil {
		m.giveUpPlan()
		return
	}
	m.openDraft(slot.Draft{
		Ref: l.ref, Revision: l.revision, Kind: slot.Step, Slot: l.plan.Slot, Fragment: l.plan.Fragment,
		Contributions: contributions, Segments: reindexed(segments, place, len(contributions)),
	})
}

// reindexed moves the contributor sets from the plan's offers to the n contributions; place maps indices.
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

// draftMembers asks who holds the state, for a record without a step.
func (m *Machine) draftMembers() {
	l := m.open.lead
	l.revision++
	l.plan, l.membersAt = nil, m.now+m.cfg.Timing.Retry
	d := slot.Draft{Kind: slot.Members}
	if m.draftsAccess() {
		d = m.accessDraft()
	}
	d.Ref, d.Revision, d.Slot = l.ref, l.revision, m.chain.tip().Slot
	m.openDraft(d)
}

func (m *Machine) openDraft(d slot.Draft) {
	l := m.open.lead
	l.draft, l.draftAt, l.haves = &d, m.now, map[who]bool{}
	m.event(Event{Kind: EventDrafted, Height: d.Height, Slot: d.Slot, Ballot: d.Ballot, RecordKind: d.Kind})
	m.sendDraft()
}

// sendDraft goes to the members and the newcomers that have not said HAVE.
func (m *Machine) sendDraft() {
	l := m.open.lead
	l.sentAt = m.now
	var to []slot.PeerID
	for _, e := range m.chain.electorate() {
		if !l.haves[ofMember(e)] {
			to = append(to, e.Peer)
		}
	}
	for _, a := range m.admissible() {
		if !l.haves[a.who] {
			to = append(to, a.peer)
		}
	}
	m.send(Draft{*l.draft}, union(to)...)
}

// onHave counts who holds the draft's outcome, and the same state after the record before it: a diverged member's word does
// not count.
func (m *Machine) onHave(msg Message, h Have) error {
	l := m.open.lead
	if l == nil || l.draft == nil || h.Ref != l.ref || h.Outcome != l.draft.Outcome() {
		return ErrStale
	}
	w := who{msg.From, msg.Incarnation}
	if m.presence.known[w] == nil {
		return ErrSender
	}
	if !m.atTip() || h.StateRoot != m.state.root {
		return invalid("a HAVE on another state")
	}
	l.haves[w] = true
	return nil
}

// proposeDraft proposes the draft once a quorum of the new members said HAVE (HOLES H11): whoever of the old ones is lost
// then, a living quorum of the new ones includes a holder of the outcome. Of a next secret a quorum of the electors must have said it, too:
// another outcome is fetched by whoever votes, but who is to be removed votes without the secret.
func (m *Machine) proposeDraft() {
	l := m.open.lead
	r := m.recordOf(*l.draft)
	if l.draft.Kind == slot.Access && (m.now-l.draftAt >= m.cfg.Timing.Patience || m.chain.check(r) != nil) {
		l.draft, m.orders.pauseAt = nil, m.now // an order was taken back; or no slot waits for a secret that too few can fetch
		return
	}
	holds := func(e slot.Member) bool { return l.haves[ofMember(e)] }
	if !slot.Quorum(r.Members, holds) || !l.draft.Key.IsZero() && !slot.Quorum(m.chain.electorate(), holds) {
		if l.plan != nil {
			m.reviseDraft()
		}
		return
	}
	if m.awaitsNewcomer() {
		return
	}
	if r.Kind == slot.Members && !m.closingDue() && slices.Equal(r.Members, m.chain.electorate()) {
		l.draft = nil // nothing changes: the newcomer did not answer, or the lost one is back
		return
	}
	if m.chain.check(r) != nil || !l.draft.Outcome().IsZero() && !m.open.outcomes[l.draft.Outcome()] {
		return
	}
	m.propose(r)
}

// reviseDraft gives up a draft whose bytes may be gone with their owners, for a revision of its plan. If somebody who lives has
// them all, everybody can have them, and it matters no more whose connection failed, but for owners whose bytes nobody gives, as
// their peers find.
func (m *Machine) reviseDraft() {
	reports := m.open.lead.reports
	if m.draftIsHeld() {
		reports = slices.DeleteFunc(slices.Clone(reports), func(r report) bool { return r.reason != LostOutcome })
		if len(reports) == 0 {
			return
		}
	}
	m.reviseIfLost(reports)
}

// draftIsHeld says whether a member that is heard has all of the draft's outcome.
func (m *Machine) draftIsHeld() bool {
	return slices.ContainsFunc(m.chain.electorate(), func(e slot.Member) bool {
		return m.open.lead.haves[ofMember(e)] && m.around(ofMember(e))
	})
}

// recordOf is the record that a draft leads to, with the members as they are heard now.
func (m *Machine) recordOf(d slot.Draft) slot.Record {
	return slot.Record{
		Run: m.cfg.Rules.Run, Height: d.Height, Kind: d.Kind, Prev: d.Prev, Slot: d.Slot, StateRoot: m.state.root,
		Members: m.nextMembers(d.Contributions, func(a *acquaintance) bool { return m.open.lead.haves[a.who] }),
		Work:    m.chain.workAfter(d.Kind, d.Contributions), Fragment: d.Fragment, Contributions: d.Contributions, Segments: d.Segments,
		Key: d.Key, Decisions: d.Decisions,
	}
}

// awaitsNewcomer gives newcomers that stand at the tip a moment to say HAVE. No joiner blocks a slot: who lets a step's moment
// pass gets no other at steps for Timing.Lost. Drafts of members records wait for it still: they hold up nobody, and not every
// newcomer can fetch an outcome within the moment.
func (m *Machine) awaitsNewcomer() bool {
	l := m.open.lead
	step, over := l.draft.Kind == slot.Step, m.now-l.draftAt >= m.cfg.Timing.Beat
	for _, a := range m.admissible() {
		switch {
		case !m.atOurTip(a) || l.haves[a.who]:
		case step && m.now-a.silentAt <= m.cfg.Timing.Lost:
		case !over:
			return true
		case step:
			a.silentAt = m.now
		}
	}
	return false
}
