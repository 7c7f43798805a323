package membership

import (
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/chain"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// acceptor is the voter's side of the open height: it follows leaders, promises and votes.
type acceptor struct {
	*facts
	*effects
	*height
	presence *presence
	proofs   *proofs
	motions  *motions
	model    *model
	pledges  *pledges
	history  *history
	audits   *audits
}

// onRetry promises the leader of the followed term its next ballot. A term's first ballot takes no
// question: electors promise it by their own clocks.
func (ac *acceptor) onRetry(msg wire.Message, ref slot.Ref) error {
	d := ac.open
	switch {
	case !d.leads(msg, ref.Ballot) || ref.Ballot%slot.Tries == 0 || !ac.elector() || ac.motions.barred(msg.From):
		return ErrSender
	case ac.answerDecided(msg.From), ref.Term() != d.term(), ref.Ballot < d.ballot:
		return ErrStale
	}
	if ref.Ballot == ac.pledges.open.Floor() && ac.now-d.promisedAt < ac.cfg.Timing.Retry/2 {
		return nil // all members have just been shown this promise
	}
	ac.reach(ref.Ballot)
	return nil
}

// reach promises a ballot: this peer gives neither HAVE nor VOTE below it any more. All members are
// shown the promise. A peer that decides nothing only follows.
//
// I6 (HOLES H2): the promise is on disk before PROMISE leaves, so no restart can vote below it. If
// this peer has given HAVE or VOTE in the ballot, these promise as much.
func (ac *acceptor) reach(ballot uint32) {
	own := &ac.pledges.open
	if !ac.elector() || own.Decided != nil || ballot < own.Floor() {
		ac.enter(ballot)
		return
	}
	if ballot > own.Floor() {
		own.Promise = &wire.EntryPromise{Ref: ac.open.position(ballot)}
		ac.persist(*own.Promise)
	}
	ac.enter(ballot)
	ac.showPromise()
}

// showPromise shows all members what this peer has promised, and the lock. The ballot's leader gets
// the record of the lock, and what proves it, too; nothing any more once it has drafted in the
// ballot.
func (ac *acceptor) showPromise() {
	d, own := ac.open, ac.pledges.open
	d.promisedAt = ac.now
	p := wire.Promise{Ref: d.position(own.Floor())}
	leader := d.leader(p.Ballot).Peer
	if v := own.Vote; v != nil {
		lock := v.QC.Lock()
		p.Lock = &lock
	}
	ac.send(p, without(peersOf(ac.chain.Members()), leader)...)
	if own.Have != nil && own.Have.Ballot == p.Ballot {
		return
	}
	ac.audits.repeatTo(leader)
	if own.Vote != nil {
		p.Locked = &own.Vote.Locked
	}
	ac.send(p, leader)
}

// answerDecided sends the certificate if a record was certified at the open position, on a branch
// that this peer has left. Another one may not be decided here.
func (ac *acceptor) answerDecided(to slot.PeerID) bool {
	decided := ac.pledges.open.Decided
	if decided == nil {
		return false
	}
	if to != ac.cfg.Self {
		ac.send(wire.Commit(*decided), to)
	}
	return true
}

// onPropose takes the QC of the leader's draft. It is voted for at once, or when the draft comes.
func (ac *acceptor) onPropose(msg wire.Message, p wire.Propose) error {
	if err := ac.follow(msg, p.Ballot); err != nil {
		return err
	}
	if !ac.elector() {
		return ErrSender
	}
	if v := ac.pledges.open.Vote; v != nil && v.Ballot == p.Ballot {
		if v.QC.Hash != p.Hash {
			return chain.Invalid("a second proposal in ballot %d", p.Ballot)
		}
		ac.sendVote() // the first was lost, or the leader restarted
		return nil
	}
	if err := ac.checkProposal(p); err != nil {
		return ac.tellRefused(msg, ReasonProposal, err)
	}
	if d := ac.open; d.proposal == nil || d.proposal.Hash != p.Hash {
		ac.sawLeader()
		d.proposal = &p
		if !d.proposed { // progress once a ballot: whatever else the leader proposes is none
			d.proposed, d.life = true, ac.now
		}
	}
	return nil
}

// checkProposal refuses a proposal that nobody may vote for, as far as it can be told before the
// draft is here. A leader that lies could send another one without end.
func (ac *acceptor) checkProposal(p wire.Propose) error {
	if drafted := ac.drafted(p.Vote); drafted != nil {
		return ac.chain.CheckQC(*p.QC, drafted.Record)
	}
	return ac.chain.CheckHaves(*p.QC)
}

// castVote votes for the proposal, once a ballot and never below a promise (H2, H4), once the draft
// is known whose record its QC is for. The QC is all that it takes: the peers that gave HAVE hold
// the state after the record before (H12) and the outcome (H10), and they have checked the record.
// The vote locks this peer: the next leader learns of it with its proof.
//
// I6: vote, record and QC are on disk before VOTE leaves.
func (ac *acceptor) castVote() {
	d, own := ac.open, &ac.pledges.open
	p := d.proposal
	if p == nil || p.Ballot < own.Floor() || own.Vote != nil && own.Vote.Ballot >= p.Ballot {
		return
	}
	drafted := ac.drafted(p.Vote)
	if drafted == nil {
		return
	}
	d.proposal = nil
	if err := ac.chain.CheckQC(*p.QC, drafted.Record); err != nil {
		_ = ac.tellRefused(wire.Message{From: d.leader(p.Ballot).Peer}, ReasonProposal, err)
		return
	}
	ac.lock(*p.QC, *drafted)
	ac.sendVote()
}

// drafted is the draft that a proposal is for; nil: it has not come. A peer that restarted after
// its HAVE has it in that: the leader does not repeat the draft to it.
func (ac *acceptor) drafted(of slot.Vote) *wire.Drafted {
	if d := ac.open.draft; d != nil && d.Vote == of {
		return &d.Drafted
	}
	if h := ac.pledges.open.Have; h != nil && h.Ref == of.Ref && h.Record.Hash() == of.Hash {
		return &h.Drafted
	}
	return nil
}

// lock puts a vote on disk.
func (ac *acceptor) lock(q wire.QC, dr wire.Drafted) {
	ac.pledges.open.Vote = &wire.EntryVote{
		Ref: ac.open.position(q.Ballot), Locked: wire.Locked{QC: q, Record: dr.Record, Proofs: dr.Proofs},
	}
	ac.persist(*ac.pledges.open.Vote)
}

// sendVote sends the newest vote to the leader of its ballot.
func (ac *acceptor) sendVote() {
	v := ac.pledges.open.Vote
	ac.send(wire.Vote{Vote: slot.Vote{Ref: v.Ref, Hash: v.QC.Hash}}, ac.open.leader(v.Ballot).Peer)
}
