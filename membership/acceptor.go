package membership

import "github.com/p2pdiloco/p2pdiloco/internal/slot"

// onPrepare promises not to vote below a ballot, and tells the highest vote so far.
//
// I6 (HOLES H2): the promise is on disk before PROMISE leaves, so no restart can vote below it. A ballot in which this peer has
// voted cannot be promised again: its leader had its promises already.
func (m *Machine) onPrepare(msg Message, ref slot.Ref) error {
	d := m.open
	switch {
	case !d.leads(msg, ref.Ballot) || ref.Ballot == 0:
		return ErrSender
	case !m.elector() || m.barred(msg.From):
		return ErrSender
	case ref.Ballot > d.seen+maxBallotStep:
		return invalid("ballot %d after %d", ref.Ballot, d.seen)
	}
	d.seen = max(d.seen, ref.Ballot)
	switch {
	case ref.Ballot < d.word.floor() || d.word.vote != nil && d.word.vote.Ballot >= ref.Ballot:
		return ErrStale
	case ref.Ballot > d.ballot && msg.From != m.cfg.Self && m.leaderLives():
		m.keepAsked(msg, ref.Ballot)
		return nil // H18: its reduction gets on; the candidate asks again
	}
	if d.word.promise == nil || d.word.promise.Ballot < ref.Ballot {
		d.word.promise = &EntryPromise{ref}
		m.persist(*d.word.promise)
	}
	m.enter(ref.Ballot)
	m.promise(ref.Ballot, msg.From)
	return nil
}

// promise tells of a promise that is on disk, and of the highest vote so far.
func (m *Machine) promise(ballot uint32, to slot.PeerID) {
	d := m.open
	promise := Promise{Ref: d.at(ballot)}
	if v := d.word.vote; v != nil {
		promise.Voted, promise.VoteBallot, promise.VoteRecord = true, v.Ballot, v.Record
	}
	m.send(promise, to)
}

// keepAsked remembers a PREPARE that is not granted because the leader lives: that of the highest ballot of those who still ask. The
// leader itself had its turn.
func (m *Machine) keepAsked(msg Message, ballot uint32) {
	d := m.open
	if d.leads(msg, d.ballot) || m.asks() && d.asked.Body.(placed).At().Ballot > ballot {
		return
	}
	d.asked, d.askedAt = &msg, m.now
}

// asks says whether a candidate waits for a promise. Who still wants one has repeated its PREPARE.
func (m *Machine) asks() bool {
	d := m.open
	return d.asked != nil && m.now-d.askedAt <= 2*m.cfg.Timing.Retry
}

// promiseLate grants the PREPARE of a candidate that has waited, once this peer's patience with the leader is over, or it has seen that
// the leader is gone. It comes before a ballot of its own: where the promise of every living peer is needed, and each in turn outbid
// who had all but one, no ballot would ever be led.
func (m *Machine) promiseLate() {
	d := m.open
	if d.asked == nil || m.leaderLives() {
		return
	}
	asked, asks := d.asked, m.asks()
	d.asked = nil
	if p, ok := asked.Body.(Prepare); ok && asks {
		_ = m.onPrepare(*asked, p.Ref) // refused now as it would have been on time
	}
}

// onPropose takes the leader's record. It is voted for at once, or when the outcome is held and the state stands at the tip.
func (m *Machine) onPropose(msg Message, p Propose) error {
	if err := m.follow(msg, p.Ballot); err != nil {
		return err
	}
	if !m.elector() {
		return nil // for newcomers a proposal is only a sign of life
	}
	d := m.open
	if v := d.word.vote; v != nil && v.Ballot == p.Ballot {
		if v.Record.Hash() != p.Record.Hash() {
			return invalid("a second proposal in ballot %d", p.Ballot) // H1: one a ballot
		}
		m.sendVote() // the first was lost, or the leader restarted
		return nil
	}
	if err := m.checkRecord(p.Record); err != nil {
		return err
	}
	if r := p.Record; r.Kind == slot.Access && m.chain.access.barredBy(r, msg.From) {
		return invalid("a proposal that removes its leader")
	}
	m.absorb(p.Record.Decisions)
	if d.proposal == nil {
		d.proposal, d.led, d.life = &p, true, m.now
	}
	return nil
}

// castVote votes for the proposal once nothing is missing. The conditions, each with what happens without it:
//   - once a ballot, never below a promise: two records certified (H2, H4);
//   - holding the state after the record before: a record whose predecessor's outcome nobody has (H12);
//   - holding the outcome on disk: a certified record that nobody can apply (H10). A next secret is not for who is to be removed: it votes
//     without, since each quorum has one who holds the secret (see proposeDraft);
//   - the same state root: a diverged member's state certified (H16).
//
// I6: vote and record are on disk before VOTE leaves.
func (m *Machine) castVote() {
	d := m.open
	p := d.proposal
	if p == nil || p.Ballot < d.word.floor() || d.word.vote != nil && d.word.vote.Ballot >= p.Ballot {
		return
	}
	removed := p.Record.Kind == slot.Access && m.chain.access.barredBy(p.Record, m.cfg.Self)
	if !m.atTip() || p.Record.StateRoot != m.state.root || !removed && !m.hold(draftOf(p.Record, p.Ballot)) {
		return
	}
	m.recordVote(p.Ballot, p.Record)
	m.sendVote()
}

// recordVote puts a vote on disk. A leader's proposal is its own vote (H5).
func (m *Machine) recordVote(ballot uint32, r slot.Record) {
	d := m.open
	d.word.vote = &EntryVote{d.at(ballot), r}
	d.proposal = nil
	m.persist(*d.word.vote)
}

// sendVote sends the newest vote to the leader of its ballot.
func (m *Machine) sendVote() {
	v := m.open.word.vote
	m.send(Vote{slot.Vote{Ref: v.Ref, Hash: v.Record.Hash()}}, m.open.leader(v.Ballot).Peer)
}

// draftOf is the draft that a record came from, as far as holding its outcome goes.
func draftOf(r slot.Record, ballot uint32) slot.Draft {
	return slot.Draft{
		Ref: slot.Ref{Height: r.Height, Prev: r.Prev, Ballot: ballot}, Kind: r.Kind, Slot: r.Slot, Fragment: r.Fragment,
		Contributions: r.Contributions, Segments: r.Segments, Key: r.Key, Decisions: r.Decisions,
	}
}
