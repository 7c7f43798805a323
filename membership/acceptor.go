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
}

// onPrepare promises neither HAVE nor VOTE below a ballot, and tells the lock.
//
// I6 (HOLES H2): the promise is on disk before PROMISE leaves, so no restart can vote below it. A
// ballot in which this peer has voted cannot be promised again: its leader had its promises
// already.
func (ac *acceptor) onPrepare(msg wire.Message, ref slot.Ref) error {
	d, own := ac.open, &ac.pledges.open
	switch {
	case !d.leads(msg, ref.Ballot) || ref.Ballot == 0:
		return ErrSender
	case !ac.elector() || ac.motions.barred(msg.From):
		return ErrSender
	case ref.Ballot > d.seen+maxBallotStep:
		return chain.Invalid("ballot %d after %d", ref.Ballot, d.seen)
	}
	d.seen = max(d.seen, ref.Ballot)
	switch {
	case ac.answerDecided(msg.From):
		return ErrStale
	case ref.Ballot < own.Floor() || own.Vote != nil && own.Vote.Ballot >= ref.Ballot ||
		own.Have != nil && own.Have.Ballot >= ref.Ballot:
		return ErrStale
	case ref.Ballot > d.ballot && ref.Term() != d.term() && msg.From != ac.cfg.Self && ac.leaderLives():
		ac.keepAsked(msg, ref.Ballot)
		return nil // H18: its reduction gets on; the candidate asks again
	}
	if own.Promise == nil || own.Promise.Ballot < ref.Ballot {
		own.Promise = &wire.EntryPromise{Ref: ref}
		ac.persist(*own.Promise)
	}
	ac.enter(ref.Ballot)
	ac.promise(ref.Ballot, msg.From)
	return nil
}

// promise sends a promise that is on disk, with the lock.
func (ac *acceptor) promise(ballot uint32, to slot.PeerID) {
	promise := wire.Promise{Ref: ac.open.at(ballot)}
	if v := ac.pledges.open.Vote; v != nil {
		lock := v.QC.Lock()
		promise.Lock, promise.Locked = &lock, &v.Locked
	}
	ac.send(promise, to)
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

// keepAsked remembers a PREPARE that is not granted because the leader lives: the one of the
// highest ballot among the candidates that still ask. It does not keep a PREPARE of the leader that
// it follows, which had its turn.
func (ac *acceptor) keepAsked(msg wire.Message, ballot uint32) {
	d := ac.open
	if d.leads(msg, d.ballot) || ac.asks() && d.asked.Body.(wire.Attempt).At().Ballot > ballot {
		return
	}
	d.asked, d.askedAt = &msg, ac.now
}

// asks says whether a candidate waits for a promise. A candidate that still wants one has repeated
// its PREPARE.
func (ac *acceptor) asks() bool {
	d := ac.open
	return d.asked != nil && ac.now-d.askedAt <= 2*ac.cfg.Timing.Retry
}

// promiseLate grants the PREPARE of a candidate that has waited, once the leader timeout is over
// here, or this peer has seen that the leader is gone. It comes before a ballot of this peer's own.
// Suppose that the promise of every living peer is needed: if each peer in turn outbid the
// candidate that had all promises but one, no ballot would ever be led.
func (ac *acceptor) promiseLate() {
	d := ac.open
	if d.asked == nil || ac.leaderLives() {
		return
	}
	asked, asks := d.asked, ac.asks()
	d.asked = nil
	if p, ok := asked.Body.(wire.Prepare); ok && asks {
		_ = ac.onPrepare(*asked, p.Ref) // refused, as it would have been on time
	}
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
	if d := ac.open; d.proposal == nil || d.proposal.Hash != p.Hash {
		ac.sawLeader()
		d.proposal, d.life = &p, ac.now
	}
	return nil
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
	if p == nil || d.draft == nil || d.draft.Vote != p.Vote || p.Ballot < own.Floor() ||
		own.Vote != nil && own.Vote.Ballot >= p.Ballot {
		return
	}
	d.proposal = nil
	if err := ac.chain.CheckQC(*p.QC, d.draft.Record); err != nil {
		ac.refused(d.leader(p.Ballot).Peer, err)
		return
	}
	ac.lock(*p.QC, d.draft.Drafted)
	ac.sendVote()
}

// lock puts a vote on disk.
func (ac *acceptor) lock(q wire.QC, dr wire.Drafted) {
	ac.pledges.open.Vote = &wire.EntryVote{
		Ref: ac.open.at(q.Ballot), Locked: wire.Locked{QC: q, Record: dr.Record, Proofs: dr.Proofs},
	}
	ac.persist(*ac.pledges.open.Vote)
}

// refused reports a leader's message that was taken and turned out to be invalid.
func (ac *acceptor) refused(p slot.PeerID, err error) {
	ac.event(Event{
		Kind: EventRefused, Height: ac.chain.Height(), Slot: ac.chain.Tip().Slot, Peer: p, Detail: err.Error(),
	})
}

// sendVote sends the newest vote to the leader of its ballot.
func (ac *acceptor) sendVote() {
	v := ac.pledges.open.Vote
	ac.send(wire.Vote{Vote: slot.Vote{Ref: v.Ref, Hash: v.QC.Hash}}, ac.open.leader(v.Ballot).Peer)
}
