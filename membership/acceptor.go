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

// onPrepare promises not to vote below a ballot, and tells the highest vote so far.
//
// I6 (HOLES H2): the promise is on disk before PROMISE leaves, so no restart can vote below it. A
// ballot in which this peer has voted cannot be promised again: its leader had its promises
// already.
func (ac *acceptor) onPrepare(msg wire.Message, ref slot.Ref) error {
	d := ac.open
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
	case ref.Ballot < ac.pledges.open.Floor() || ac.pledges.open.Vote != nil &&
		ac.pledges.open.Vote.Ballot >= ref.Ballot:
		return ErrStale
	case ref.Ballot > d.ballot && msg.From != ac.cfg.Self && ac.leaderLives():
		ac.keepAsked(msg, ref.Ballot)
		return nil // H18: its reduction gets on; the candidate asks again
	}
	if ac.pledges.open.Promise == nil || ac.pledges.open.Promise.Ballot < ref.Ballot {
		ac.pledges.open.Promise = &wire.EntryPromise{Ref: ref}
		ac.persist(*ac.pledges.open.Promise)
	}
	ac.enter(ref.Ballot)
	ac.promise(ref.Ballot, msg.From)
	return nil
}

// promise sends a promise that is on disk, with the highest vote so far.
func (ac *acceptor) promise(ballot uint32, to slot.PeerID) {
	d := ac.open
	promise := wire.Promise{Ref: d.at(ballot)}
	if v := ac.pledges.open.Vote; v != nil {
		promise.Voted, promise.VoteBallot, promise.VoteRecord, promise.VoteProofs = true, v.Ballot, v.Record, v.Proofs
	}
	ac.send(promise, to)
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

// onPropose takes the leader's record. It is voted for at once, or when the outcome is held and the
// state stands at the tip.
func (ac *acceptor) onPropose(msg wire.Message, p wire.Propose) error {
	if err := ac.follow(msg, p.Ballot); err != nil {
		return err
	}
	if !ac.elector() {
		return nil // for newcomers a proposal is only a sign of life
	}
	d := ac.open
	if v := ac.pledges.open.Vote; v != nil && v.Ballot == p.Ballot {
		if v.Record.Hash() != p.Record.Hash() {
			return chain.Invalid("a second proposal in ballot %d", p.Ballot) // H1: one a ballot
		}
		ac.sendVote() // the first was lost, or the leader restarted
		return nil
	}
	if err := ac.motions.checkRecord(p.Record); err != nil {
		return err
	}
	if r := p.Record; r.Kind == slot.Access && ac.chain.Access().BarredBy(r, msg.From) {
		return chain.Invalid("a proposal that removes its leader")
	}
	ac.proofs.noteAll(p.Record.Contributions, p.Proofs)
	if !ac.proofs.has(p.Record.Contributions) && !ac.votedFor(p.Record) {
		return chain.Invalid("a proposal with an offer that its contributor has not signed")
	}
	ac.motions.adoptSigned(p.Record.Decisions)
	if d.proposal == nil {
		ac.sawLeader()
		d.proposal, d.life = &p, ac.now
	}
	return nil
}

// votedFor says whether this peer's newest vote is for a record. It keeps a certified record of a
// branch that it left as a vote, without the proofs of its offers.
func (ac *acceptor) votedFor(r slot.Record) bool {
	v := ac.pledges.open.Vote
	return v != nil && v.Record.Hash() == r.Hash()
}

// castVote votes for the proposal once nothing is missing. The conditions, each with what happens
// without it:
//   - once a ballot, never below a promise: two records certified (H2, H4);
//   - holding the state after the record before: a record whose predecessor's outcome nobody has
//     (H12);
//   - holding the outcome on disk: a certified record that nobody can apply (H10). A next secret is
//     not for a member that is to be removed: it votes without, since each quorum has one that
//     holds the secret (see proposeDraft);
//   - the same state root: a diverged member's state certified (H16).
//
// I6: vote and record are on disk before VOTE leaves.
func (ac *acceptor) castVote() {
	d := ac.open
	p := d.proposal
	if p == nil || p.Ballot < ac.pledges.open.Floor() || ac.pledges.open.Vote != nil &&
		ac.pledges.open.Vote.Ballot >= p.Ballot {
		return
	}
	removed := p.Record.Kind == slot.Access && ac.chain.Access().BarredBy(p.Record, ac.cfg.Self)
	if !ac.model.atTip() || p.Record.StateRoot != ac.model.state.root || !removed &&
		!ac.hold(draftOf(p.Record, p.Ballot)) {
		return
	}
	ac.recordVote(p.Ballot, p.Record)
	ac.sendVote()
}

// recordVote puts a vote on disk. A leader's proposal is its own vote (H5).
func (ac *acceptor) recordVote(ballot uint32, r slot.Record) {
	d := ac.open
	ac.pledges.open.Vote = &wire.EntryVote{Ref: d.at(ballot), Record: r, Proofs: ac.proofs.of(r.Contributions)}
	d.proposal = nil
	ac.persist(*ac.pledges.open.Vote)
}

// sendVote sends the newest vote to the leader of its ballot.
func (ac *acceptor) sendVote() {
	v := ac.pledges.open.Vote
	ac.send(wire.Vote{Vote: slot.Vote{Ref: v.Ref, Hash: v.Record.Hash()}}, ac.open.leader(v.Ballot).Peer)
}

// draftOf returns the draft that a record came from, as far as holding its outcome needs it.
func draftOf(r slot.Record, ballot uint32) slot.Draft {
	return slot.Draft{
		Ref: slot.Ref{Height: r.Height, Prev: r.Prev, Ballot: ballot}, Kind: r.Kind, Slot: r.Slot, Fragment: r.Fragment,
		Contributions: r.Contributions, Segments: r.Segments, Key: r.Key, Decisions: r.Decisions,
	}
}
