package membership

import (
	"cmp"
	"slices"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/chain"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// drafter makes the record that the leader wants decided, and gathers the HAVEs for it.
type drafter struct {
	*facts
	*effects
	*height
	presence *presence
	evidence *evidence
	proofs   *proofs
	motions  *motions
	model    *model
	roster   *roster
	pledges  *pledges
	planner  *planner
	audits   *audits
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
	contributions := usedOffers(*l.plan, used)
	place := make([]int, len(l.plan.Offers))
	for i, n := 0, 0; i < len(place); i++ {
		place[i] = n
		n += btoi(used.Has(i))
	}
	if !dr.draftRecord(slot.Record{
		Kind: slot.Step, Slot: l.plan.Slot, Fragment: l.plan.Fragment,
		Contributions: contributions, Usual: l.plan.Usual,
		Segments: reindexed(segments, place, len(contributions)),
	}) && !dr.planner.resign("its segments lack electors that contributed lately") {
		dr.planner.giveUpPlan()
	}
}

// usedOffers returns some offers of a plan, in its order.
func usedOffers(p slot.Plan, used slot.Bitmap) (offers []slot.Offer) {
	for i, o := range p.Offers {
		if used.Has(i) {
			offers = append(offers, o)
		}
	}
	return offers
}

// byPlan returns a draft without its offers, for peers that were sent its plan; ok is false if the
// draft is not one of that plan.
func byPlan(d wire.Draft, p *slot.Plan) (brief wire.Draft, ok bool) {
	if p == nil || d.Record.Kind != slot.Step || d.Grounds.QC != nil {
		return d, false
	}
	used := slot.NewBitmap(len(p.Offers))
	for i, o := range p.Offers {
		if slices.Contains(d.Record.Contributions, o) {
			used.Set(i)
		}
	}
	return d.Brief(p.Group(), used), slices.Equal(usedOffers(*p, used), d.Record.Contributions)
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

// draftMembers drafts a record without a step.
func (dr *drafter) draftMembers() {
	l := dr.open.lead
	l.revision++
	l.plan, l.membersAt = nil, dr.now+dr.cfg.Timing.Retry
	r := slot.Record{Kind: slot.Members}
	if dr.motions.draftsAccess() {
		r = dr.motions.accessRecord()
	}
	r.Slot = dr.chain.Tip().Slot
	dr.draftRecord(r)
}

// draftRecord completes a record and drafts it, if it may follow. It lists the members as they are
// heard now, and the newcomers that stand at the tip: those that get a vote say whether they hold
// the outcome. The last tries of a term are for the slot alone: with a silent newcomer in each of
// them, no leader would get anything decided.
func (dr *drafter) draftRecord(r slot.Record) bool {
	l := dr.open.lead
	r.Run, r.Height, r.Prev, r.StateRoot = dr.cfg.Rules.Run, l.ref.Height, l.ref.Prev, dr.model.state.root
	r.Work = dr.chain.WorkAfter(r.Kind, r.Contributions)
	r = dr.roster.settle(r, func(a *contact) bool {
		step := r.Kind == slot.Step && l.ref.Ballot%slot.Tries < slot.Tries-2
		return (step || dr.roster.spares(l.ref.Ballot, dr.open.draftAt)) && dr.roster.ready(a)
	})
	if r.Kind == slot.Members && !dr.closingDue() && slices.Equal(r.Members, dr.chain.Members()) {
		return false // nothing changes: the newcomer was silent just now, or the lost one is back
	}
	if dr.chain.Check(r, l.ref.Ballot) != nil {
		return false
	}
	dr.openDraft(wire.Drafted{
		Record: r, Proofs: dr.proofs.list(r.Contributions), Attached: dr.roster.proofOf(r), Owners: dr.owners(r),
		Grounds: l.grounds,
	})
	return true
}

// owners is what the owners of a step's segments have signed, where they are audited.
func (dr *drafter) owners(r slot.Record) (w wire.Owners) {
	if !dr.chain.Rules().Audits() || r.Kind != slot.Step {
		return w
	}
	w.Group = dr.open.lead.group
	for _, s := range r.Segments {
		w.Stated = append(w.Stated, dr.open.lead.segments[s.Range.Begin].signed)
	}
	return w
}

// draftAgain drafts the record that the promises force, unchanged. The HAVEs of its QC are carried
// along.
func (dr *drafter) draftAgain() {
	l := dr.open.lead
	dr.openDraft(wire.Drafted{Record: l.forced.Record, Proofs: l.forced.Proofs, Grounds: l.grounds})
	dr.carry(l.forced.QC)
}

// gather takes up the HAVEs for a record.
func (l *leading) gather(record slot.Root) {
	if l.given[record] == nil {
		l.given[record] = map[memberKey]wire.SignedHave{}
	}
	l.haves = l.given[record]
}

// carry counts the HAVEs of a QC for the draft again.
func (dr *drafter) carry(q wire.QC) {
	for _, h := range q.Haves {
		dr.open.lead.haves[memberKey{h.Peer, h.Incarnation}] = h
	}
}

// openDraft sends the ballot's one draft. This peer takes it like any other: what its HAVE is bound
// to is on disk before the draft leaves.
func (dr *drafter) openDraft(drafted wire.Drafted) {
	l, r := dr.open.lead, drafted.Record
	body := wire.Draft{Vote: slot.Vote{Ref: l.ref, Hash: r.Hash()}, Drafted: drafted}
	own := &dr.pledges.open
	own.Have = &wire.EntryHave{Ref: l.ref, Drafted: drafted}
	dr.persist(*own.Have)
	l.draft, l.draftAt, l.haveAt = &body, dr.now, dr.now
	l.gather(body.Hash)
	dr.event(Event{Kind: EventDrafted, Height: r.Height, Slot: r.Slot, Ballot: l.ref.Ballot, RecordKind: r.Kind})
	dr.showDraft()
}

// showDraft sends the draft for the first time. Members were sent the plan, and get the draft
// without its offers. Those that lack the plan get the whole draft when it is repeated.
func (dr *drafter) showDraft() {
	l := dr.open.lead
	l.sentAt = dr.now
	out := wire.Envelope{To: dr.unanswered(), Body: *l.draft}
	if brief, ok := byPlan(*l.draft, l.plan); ok {
		out.Brief = brief
		out.BriefTo, out.To = split(out.To, func(p slot.PeerID) bool {
			return p != dr.cfg.Self && slot.Find(dr.chain.Members(), p) >= 0
		})
	}
	dr.sendForms(out)
}

// sendDraft repeats the draft.
func (dr *drafter) sendDraft() {
	dr.open.lead.sentAt = dr.now
	dr.send(*dr.open.lead.draft, dr.unanswered()...)
}

// unanswered lists the electors, and the newcomers that the draft's record lists, that have not
// sent HAVE in this ballot.
func (dr *drafter) unanswered() (to []slot.PeerID) {
	l := dr.open.lead
	for _, e := range slices.Concat(dr.chain.Electorate(), l.draft.Record.Electors()) {
		if h, ok := l.haves[ofMember(e)]; !ok || h.Ballot < l.ref.Ballot {
			to = append(to, e.Peer)
		}
	}
	return union(to)
}

// onHave gathers the first votes for the draft, of electors and of those that its record lists.
// Those for a record that was given up show that a newcomer only takes its time.
func (dr *drafter) onHave(msg wire.Message, h wire.Have) error {
	l := dr.open.lead
	if l == nil || l.given[h.Hash] == nil || h.Ballot > l.ref.Ballot {
		return ErrStale
	}
	w := memberKey{msg.From, msg.Incarnation}
	a := dr.presence.known[w]
	if a == nil && dr.checkElector(msg) != nil {
		return ErrSender
	}
	if had, ok := l.given[h.Hash][w]; !ok || had.Ballot < h.Ballot {
		l.given[h.Hash][w] = wire.SignedHave{Peer: w.peer, Incarnation: w.inc, Ballot: h.Ballot, Sig: msg.Sig}
		l.haveAt = dr.now
	}
	if a != nil {
		a.silentAt = never
	}
	return nil
}

// complete returns the draft's QC, once a quorum of the electors has sent HAVE in this ballot and
// enough of those that the record lists have in any.
func (dr *drafter) complete() (q wire.QC, ok bool) {
	l := dr.open.lead
	now := func(e slot.Member) bool {
		h, ok := l.haves[ofMember(e)]
		return ok && h.Ballot == l.ref.Ballot
	}
	ever := func(e slot.Member) bool { _, ok := l.haves[ofMember(e)]; return ok }
	switch r := l.draft.Record; {
	case !dr.chain.Rules().Quorum(dr.chain.Electorate(), now):
		dr.giveUpHanging()
		return q, false
	case dr.chain.TooFewHaves(r, ever):
		dr.giveUpWaiting(ever)
		return q, false
	}
	q = wire.QC{Ballot: l.ref.Ballot, Hash: l.draft.Hash}
	for w, h := range l.haves {
		_, elector := chain.FindMember(dr.chain.Electorate(), w.peer, w.inc)
		_, listed := chain.FindMember(l.draft.Record.Electors(), w.peer, w.inc)
		if elector || listed {
			q.Haves = append(q.Haves, h)
		}
	}
	slices.SortFunc(q.Haves, func(a, b wire.SignedHave) int {
		return cmp.Or(cmp.Compare(a.Peer, b.Peer), cmp.Compare(a.Incarnation, b.Incarnation))
	})
	return q, true
}

// giveUpWaiting gives a draft up that lacks only the HAVEs of newcomers which had a moment for it.
// No joiner blocks a slot: the next draft is without them, and others of theirs wait for
// Timing.Lost.
func (dr *drafter) giveUpWaiting(gave func(slot.Member) bool) {
	l := dr.open.lead
	if dr.now-l.draftAt < dr.cfg.Timing.Beat || len(l.grounds.Promises) > 0 && l.grounds.QC != nil {
		return
	}
	for _, m := range l.draft.Record.Electors() {
		if a := dr.presence.known[ofMember(m)]; a != nil && !gave(m) {
			a.silentAt = dr.now
		}
	}
	dr.giveUp()
}

// giveUpHanging gives a draft up that no quorum can answer: its bytes are gone with their owners,
// or too few can have the secret. If a living peer has all bytes, everybody can have them, and
// failed connections do not matter any more. Owners of bytes that no peer has still matter.
func (dr *drafter) giveUpHanging() {
	l := dr.open.lead
	if r := l.draft.Record; r.Kind == slot.Access &&
		(dr.now-l.draftAt >= dr.cfg.Timing.Patience || !dr.motions.stand(r.Decisions)) {
		// no slot waits for a secret that too few can fetch, or for motions that were taken back
		dr.motions.pauseAt = dr.now
		dr.giveUp()
		return
	}
	if l.draft.Record.Kind != slot.Step || l.grounds.QC != nil {
		return
	}
	if dr.auditFailed() {
		dr.abandon("its outcome has what is false, or what a contributor shows nobody")
		return
	}
	if dr.tolerated() > 0 {
		if dr.now-l.haveAt >= dr.planner.history.doubled(2*dr.cfg.Timing.Patience, l.ref.Term()) {
			dr.abandon("no quorum answers its draft")
		}
		return
	}
	if dr.open.last == nil { // this peer has restarted, and knows no plan of it
		if dr.now-l.draftAt >= silentTimeouts*dr.cfg.Timing.Patience && !dr.draftIsHeld() {
			dr.giveUp()
		}
		return
	}
	reports := l.reports
	if dr.draftIsHeld() {
		reports = slices.DeleteFunc(slices.Clone(reports), func(r report) bool { return r.reason != wire.LostOutcome })
		if len(reports) == 0 {
			return
		}
	}
	if dr.planner.someLost(reports) {
		dr.giveUp()
	}
}

// auditFailed says whether the draft's outcome cannot stand. The segments of an owner that was
// proven to lie go to others. With a contribution that is false, or that more electors than may lie
// cannot check, all that it went into is reduced anew, by a group without it.
func (dr *drafter) auditFailed() bool {
	l := dr.open.lead
	bad := false
	for _, o := range l.draft.Record.Contributions {
		hides := len(dr.open.hidden[o]) > dr.tolerated()
		if hides || dr.audits.convicted(o.Peer) {
			l.exclude(o)
			bad = true
		}
	}
	if bad {
		l.givenUp = l.group
	}
	return bad || slices.ContainsFunc(l.draft.Owners.Peers(), dr.audits.lies)
}

// abandon ends the term of a draft that no quorum will answer; where nobody may lie, only the try.
func (dr *drafter) abandon(why string) {
	if !dr.planner.resign(why) {
		dr.giveUp()
	}
}

// giveUp asks for promises for the next try of this term. After the last one, another peer leads.
func (dr *drafter) giveUp() {
	l := dr.open.lead
	if (l.ref.Ballot+1)%slot.Tries == 0 {
		return
	}
	next := l.nextTry()
	next.sentAt = dr.now
	dr.open.lead = next
	dr.send(wire.Retry{Ref: next.ref}, peersOf(dr.chain.Electorate())...)
}

// draftIsHeld says whether a member that is heard has all of the draft's outcome.
func (dr *drafter) draftIsHeld() bool {
	return slices.ContainsFunc(dr.chain.Members(), func(e slot.Member) bool {
		_, held := dr.open.lead.haves[ofMember(e)]
		return held && dr.presence.around(ofMember(e))
	})
}
