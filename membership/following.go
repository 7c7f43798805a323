package membership

import (
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/chain"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// follow accepts a leader's message of a ballot, unless a higher one was promised or is followed,
// or in trust byzantine another leader gets on, and this peer has not promised this one. If no peer
// leads the higher one, this peer sends its promise to the lower one's leader, which may lack just
// this vote.
func (ac *acceptor) follow(msg wire.Message, ballot uint32) error {
	d := ac.open
	switch {
	case !d.leads(msg, ballot) || ac.motions.barred(msg.From):
		// a barred peer would outbid the one that is to record it
		return ErrSender
	case ballot > d.seen+maxBallotStep:
		return chain.Invalid("ballot %d after %d", ballot, d.seen)
	case ac.answerDecided(msg.From):
		return ErrStale
	case ac.cfg.Rules.Byzantine && ballot > d.ballot && d.at(ballot).Term() != d.term() && ac.leaderLives():
		return ErrStale // it was promised nothing here, and its word alone deposes nobody (a18)
	case ballot < d.ballot || ballot < ac.pledges.open.Floor():
		if ballot < ac.pledges.open.Floor() && !ac.leaderLives() && ac.now-d.notifiedAt >= ac.cfg.Timing.Retry {
			d.notifiedAt = ac.now
			ac.notify(msg.From)
		}
		return ErrStale
	}
	ac.enter(ballot)
	return nil
}

// notify tells the leader of a lower ballot which one was promised, if that is what binds this
// peer.
func (ac *acceptor) notify(to slot.PeerID) {
	own := ac.pledges.open
	voted := own.Vote != nil && own.Vote.Ballot == own.Floor()
	if p := own.Promise; p != nil && p.Ballot == own.Floor() && !voted {
		ac.promise(p.Ballot, to)
	}
}

// enter turns to a ballot. It forgets what belonged to a lower one, except what is on disk. The
// next try of a leader is the same leader's: what it has shown counts on.
func (ac *acceptor) enter(ballot uint32) {
	d := ac.open
	d.seen = max(d.seen, ballot)
	if ballot <= d.ballot {
		return
	}
	if d.at(ballot).Term() != d.term() {
		d.led, d.beat, d.revision, d.revised, d.asked = false, wire.Beat{}, 0, 0, nil
	}
	d.ballot, d.life = ballot, ac.now
	d.plan, d.draft, d.haveSent, d.proposal, d.bytes = nil, nil, false, nil, 0
	if d.lead != nil && d.lead.ref.Ballot < ballot {
		d.lead = nil
	}
}

// leaderTimeout is how long the leader of the followed term may show nothing. It doubles with the
// term (H18): some leader gets long enough.
func (ac *acceptor) leaderTimeout() time.Duration {
	return ac.cfg.Timing.Patience << min(ac.open.term(), 5)
}

// leaderLives says whether the followed leader showed progress within its timeout. A peer that sees
// that refuses PREPARE, so that one peer with a bad link cannot depose the leader.
//
// A candidate has half a Timing.Retry to get its promises and act on them. Of two that rise at once
// the lower may have been promised nothing by then, nor ever will be, and the higher may need its
// promise: the lower one gives way.
func (ac *acceptor) leaderLives() bool {
	d := ac.open
	leader := ofMember(d.leader(d.ballot))
	wait := ac.leaderTimeout()
	if !d.led && !ac.leadsPrepared() {
		wait = ac.cfg.Timing.Retry / 2
	}
	return ac.now-d.life < wait && ac.presence.around(leader) && !ac.presence.onAnotherBranch(leader) &&
		!ac.motions.barred(leader.peer)
}

// sawLife notes progress in a revision. A leader that revises without end gets nowhere. After as
// many revisions as a ballot's losses can explain, they do not count as progress any more, and
// another candidate may try.
func (ac *acceptor) sawLife(revision uint32) {
	d := ac.open
	ac.sawLeader()
	if revision > d.revision {
		d.revision = revision
		d.revised++
	}
	if d.revised <= len(d.order)+8 {
		d.life = ac.now
	}
}

// sawLeader notes that the followed ballot has a leader.
func (ac *acceptor) sawLeader() {
	if d := ac.open; !d.led {
		d.led, d.ledAt = true, ac.now
	}
}

// believesBeats says whether counters that rise still keep the leader. They are its own word, and a
// leader that lies can have them rise for ever. So they count for three times as long as reductions
// usually take here, at least for four Patience, and for twice that in each further term.
// What this peer sees by itself, bytes and plans and drafts, counts without that.
func (ac *acceptor) believesBeats() bool {
	d := ac.open
	usual := max(4*ac.cfg.Timing.Patience, 3*ac.history.usual)
	return !d.led || ac.now-d.ledAt < usual<<min(d.term(), 6)
}

// onBeat counts any counter that rises as a sign of life.
func (ac *acceptor) onBeat(msg wire.Message, b wire.Beat) error {
	if err := ac.follow(msg, b.Ballot); err != nil {
		return err
	}
	d := ac.open
	o := &d.beat
	if b.Revision > o.Revision {
		*o = wire.Beat{Ref: b.Ref, Revision: b.Revision}
	}
	rises := b.Offers > o.Offers || b.Bytes > o.Bytes || b.Haves > o.Haves || b.Votes > o.Votes ||
		b.Segments > o.Segments
	if rises && ac.believesBeats() {
		ac.sawLife(b.Revision)
	}
	o.Offers, o.Bytes, o.Haves = max(o.Offers, b.Offers), max(o.Bytes, b.Bytes), max(o.Haves, b.Haves)
	o.Votes, o.Segments = max(o.Votes, b.Votes), max(o.Segments, b.Segments)
	return nil
}

// leadsPrepared says whether this peer leads the followed ballot and has its quorum of promises. It
// never deposes itself then, unless a member named a higher ballot and it makes no progress with a
// draft or a proposal: members that promised that ballot do not vote here any more.
func (ac *acceptor) leadsPrepared() bool {
	d := ac.open
	return d.lead != nil && d.lead.ref.Ballot == d.ballot && d.lead.prepared
}

// hold says whether the outcome of a draft, or the secret that it brings, is on disk. If not, it
// asks the worker to fetch it from the named peers, the contributors, the leader, or any other
// member.
func (ac *acceptor) hold(dr slot.Draft, from ...slot.PeerID) bool {
	d, outcome := ac.open, dr.Outcome()
	if outcome.IsZero() || d.outcomes[outcome] {
		return true
	}
	if d.fetching != outcome || ac.now-d.fetchedAt >= 4*ac.cfg.Timing.Retry {
		d.fetching, d.fetchedAt = outcome, ac.now
		ac.work(WorkHold{Draft: dr, From: ac.presence.sources(from, offerers(dr.Contributions),
			[]slot.PeerID{d.leader(dr.Ballot).Peer})})
	}
	return false
}

// held notes that an outcome is on disk. Outcomes are named by their bytes: the ballot does not
// matter.
func (ac *acceptor) held(r ReportHeld) {
	d := ac.open
	if r.Height != d.ref.Height || r.Prev != d.ref.Prev {
		return
	}
	d.outcomes[r.Outcome] = true
	if d.fetching == r.Outcome {
		d.fetching, d.fetchedAt = slot.Root{}, never
	}
}
