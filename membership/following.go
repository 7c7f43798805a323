package membership

import (
	"errors"
	"fmt"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// errAhead says that a leader's message is of a later term than the one that this peer follows. Its
// leader's word alone moves nobody (a18): this peer follows when enough electors have promised it.
var errAhead = fmt.Errorf("%w: its term has not begun here", ErrStale)

// follow accepts a leader's message of the followed term, unless a higher ballot was promised or is
// followed.
func (ac *acceptor) follow(msg wire.Message, ballot uint32) error {
	d := ac.open
	switch {
	case !d.leads(msg, ballot) || ac.motions.barred(msg.From):
		// a peer that is to be removed leads nothing
		return ErrSender
	case ac.answerDecided(msg.From), ballot < d.ballot || ballot < ac.pledges.open.Floor():
		return ErrStale
	case d.position(ballot).Term() != d.term():
		return errAhead
	}
	ac.enter(ballot)
	return nil
}

// followDraft accepts a draft. One of a later term is followed if its grounds show that a quorum
// has promised its ballot.
func (ac *acceptor) followDraft(msg wire.Message, body wire.Draft) error {
	err := ac.follow(msg, body.Ballot)
	if errors.Is(err, errAhead) && ac.chain.CheckGrounds(body.Grounds, body.Ballot, body.Record) == nil {
		ac.enter(body.Ballot)
		return nil
	}
	return err
}

// plansAhead is the number of terms after the followed one whose leaders' plans are kept until this
// peer has seen enough promises.
const plansAhead = 4

// keepAhead keeps a plan of one of the next terms.
func (ac *acceptor) keepAhead(msg wire.Message, ballot uint32) {
	d := ac.open
	if t := d.position(ballot).Term(); t <= d.term()+plansAhead {
		d.ahead[t] = msg
	}
}

// takeAhead takes out the plan that has come before its term.
func (ac *acceptor) takeAhead() (msg wire.Message, ok bool) {
	d := ac.open
	msg, ok = d.ahead[d.term()]
	delete(d.ahead, d.term())
	return msg, ok
}

// enter turns to a ballot. It forgets what belonged to a lower one, except what is on disk. The
// next try of a leader is the same leader's: what it has shown counts on.
func (ac *acceptor) enter(ballot uint32) {
	d := ac.open
	if ballot <= d.ballot {
		return
	}
	if d.position(ballot).Term() != d.term() {
		d.led, d.beat, d.revision, d.revised, d.began, d.drafted = false, wire.Beat{}, 0, 0, never, nil
		d.planned = 0
	}
	d.ballot, d.life = ballot, ac.now
	d.plan, d.draft, d.haveSent, d.proposal, d.proposed, d.bytes = nil, nil, false, nil, false, 0
	if d.lead != nil && d.lead.ref.Ballot < ballot {
		d.lead = nil
	}
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

// leadsPrepared says whether this peer leads the followed ballot and has its quorum of promises.
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
