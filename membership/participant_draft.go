package membership

import (
	"fmt"
	"slices"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/chain"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// onDraft takes the leader's draft, and binds this peer's HAVE of the ballot to it. answerDraft
// sends the HAVE once it is true. Newcomers that the record lists answer, too.
//
// I6: what the HAVE is bound to is on disk before anything else, so a restart gives no other one in
// the ballot (BYZANTINE m2, m7).
func (pa *participant) onDraft(msg wire.Message, body wire.Draft) error {
	if err := pa.acceptor.followDraft(msg, body); err != nil {
		return err
	}
	return pa.acceptor.tellRefused(msg, ReasonDraft, pa.takeDraft(msg, body))
}

// takeDraft takes a draft of the leader that is followed, if it breaks no rule.
func (pa *participant) takeDraft(msg wire.Message, body wire.Draft) error {
	body, err := pa.wholeDraft(body)
	if err != nil {
		return err
	}
	d, own := pa.open, &pa.pledges.open
	if own.Have != nil && own.Have.Ballot == body.Ballot {
		if own.Have.Record.Hash() != body.Hash {
			return chain.Invalid("a second draft in ballot %d", body.Ballot)
		}
		// whoever repeats a draft shows grounds anew: a false QC would silence all objections; and
		// what owners have signed: audits convict by it
		if err := pa.chain.CheckGrounds(body.Grounds, body.Ballot, body.Record); err != nil {
			return err
		}
		// and owners: an auditor does not look at what is said to be its own
		if err := pa.audits.checkStated(body); err != nil {
			return err
		}
	} else if err := pa.checkDraft(msg.From, body); err != nil {
		return err
	} else if own.Have == nil || own.Have.Ballot < body.Ballot {
		own.Have = &wire.EntryHave{Ref: body.Ref, Drafted: body.Drafted}
		if msg.From != pa.cfg.Self {
			own.Have.Attached, own.Have.Owners, own.Have.Grounds = wire.Attachments{}, wire.Owners{}, wire.Grounds{}
		}
		pa.persist(*own.Have)
	}
	if d.draft == nil {
		pa.noteDraft(body)
	}
	d.draft, d.haveSent = &body, false
	return nil
}

// wholeDraft returns a draft with the offers that its leader has left out because it sent this peer
// the plan. A peer without the plan, after a restart for one, gets the whole draft when the leader
// repeats it.
func (pa *participant) wholeDraft(body wire.Draft) (wire.Draft, error) {
	by, p := body.ByPlan, pa.open.last
	switch {
	case by == nil:
		return body, nil
	case p == nil || p.Group() != by.Group:
		return body, fmt.Errorf("%w: the offers of plan %s", ErrLacks, by.Group.Short())
	case !by.Used.Fits(len(p.Offers)):
		return body, chain.Invalid("a draft of %d bytes over %d offers of its plan", len(by.Used), len(p.Offers))
	}
	offers := usedOffers(*p, by.Used)
	if !pa.proofs.has(offers) {
		return body, fmt.Errorf("%w: signatures of offers of plan %s", ErrLacks, by.Group.Short())
	}
	return body.Whole(offers, pa.proofs.list(offers))
}

// noteDraft notes a ballot's draft as progress of its leader.
func (pa *participant) noteDraft(body wire.Draft) {
	d := pa.open
	pa.proofs.noteAll(body.Record.Contributions, body.Proofs)
	pa.motions.adoptSigned(body.Record.Decisions)
	pa.acceptor.sawLife(d.revision + 1)
	if body.Record.Kind.KeepsSlot() {
		d.drafts, d.draftAt = d.drafts+1, pa.now
	}
	if body.Record.Kind == slot.Access {
		d.accessAt = pa.now
	}
}

// checkDraft says whether a draft's record may follow, and whether its leader may draft it.
func (pa *participant) checkDraft(leader slot.PeerID, body wire.Draft) error {
	r := body.Record
	if _, listed := chain.FindMember(r.Electors(), pa.cfg.Self, pa.cfg.Incarnation); !listed && !pa.elector() {
		return ErrSender // a newcomer that it does not list
	}
	if r.Kind == slot.Fork {
		return chain.Invalid("a draft of a fork")
	}
	if err := pa.chain.CheckGrounds(body.Grounds, body.Ballot, r); err != nil {
		return err
	}
	if err := pa.motions.checkRecord(r, body.Ballot); err != nil {
		return err
	}
	if r.Kind == slot.Access && pa.chain.Access().BarredBy(r, leader) {
		return chain.Invalid("a draft that removes its leader") // it would know the next secret
	}
	if body.Grounds.QC != nil {
		return nil // a quorum has checked the rest
	}
	if pa.motions.takenBack(r.Decisions) {
		return fmt.Errorf("%w: a draft with an order that was taken back", ErrStale)
	}
	if err := pa.checkOutcomes(r.Outcome()); err != nil {
		return err
	}
	if err := pa.statements.check(r, body.Attached); err != nil {
		return err
	}
	if err := pa.audits.checkStated(body); err != nil {
		return err
	}
	pa.proofs.noteAll(r.Contributions, body.Proofs)
	if !pa.proofs.has(r.Contributions) {
		return chain.Invalid("a draft with an offer that its contributor has not signed")
	}
	return nil
}

// outcomesATerm is the number of different outcomes that one leader may have drafts of in its term,
// where it may lie. Each has to be fetched, and is kept on disk.
const outcomesATerm = 3

// checkOutcomes refuses a draft of one outcome too many in the followed term.
func (pa *participant) checkOutcomes(outcome slot.Root) error {
	d := pa.open
	if pa.tolerated() == 0 || outcome.IsZero() || slices.Contains(d.drafted, outcome) {
		return nil
	}
	if len(d.drafted) >= outcomesATerm {
		return chain.Invalid("a draft of a fourth outcome in term %d", d.term())
	}
	d.drafted = append(slices.Clip(d.drafted), outcome)
	return nil
}

// answerDraft sends HAVE: the record's outcome is on disk here, and so is the state after the
// record before, with the root that the record says (HOLES H10, H12, H16). A member that is to be
// removed does not get the next secret, so it gives none where the record brings one. Once the
// record comes with a QC, a quorum holds the secret, and it does: no other record may be decided.
func (pa *participant) answerDraft() {
	d := pa.open
	if d.draft == nil || d.haveSent || !pa.model.atTip() || d.draft.Record.StateRoot != pa.model.state.root {
		return
	}
	r := d.draft.Record
	removed := !r.Key.IsZero() && pa.chain.Access().BarredBy(r, pa.cfg.Self)
	if removed && d.draft.Grounds.QC == nil ||
		!removed && !pa.acceptor.hold(slot.DraftOf(r, d.draft.Ballot), holders(d.draft.Grounds.QC)...) {
		return
	}
	if why := pa.audits.objection(*d.draft); why != "" {
		if why != waitsForAudit && d.objected != d.draft.Hash {
			d.objected = d.draft.Hash
			pa.reportPeer(EventObjected, "", d.leader(d.draft.Ballot).Peer, "no HAVE for its draft while "+why)
		}
		return
	}
	d.haveSent = true
	pa.send(wire.Have{Vote: d.draft.Vote}, d.leader(d.draft.Ballot).Peer)
}

// holders lists the peers that hold the outcome of a QC's record.
func holders(q *wire.QC) (ps []slot.PeerID) {
	if q == nil {
		return nil
	}
	for _, h := range q.Haves {
		ps = append(ps, h.Peer)
	}
	return ps
}
