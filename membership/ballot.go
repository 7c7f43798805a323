package membership

import (
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// patience is how long a ballot's leader may show nothing. It doubles with the ballot (H18): some leader gets long enough.
func (m *Machine) patience(ballot uint32) time.Duration {
	return m.cfg.Timing.Patience << min(ballot, 5)
}

// leaderLives says whether the followed leader showed progress within its patience. Who sees that refuses PREPARE, so that one
// peer with a bad link cannot depose it.
//
// A candidate has half a Timing.Retry to get its promises and act on them. Of two that rise at once the lower may have been
// promised nothing by then, nor ever will be, and the higher may need its promise: it gives way.
func (m *Machine) leaderLives() bool {
	d := m.open
	leader := ofMember(d.leader(d.ballot))
	wait := m.patience(d.ballot)
	if !d.led && !m.leadsPrepared() {
		wait = m.cfg.Timing.Retry / 2
	}
	return m.now-d.life < wait && m.around(leader) && !m.astray(leader) && !m.barred(leader.peer)
}

// astray says whether a member stands on another branch: it leads nothing here, however patient one was with it.
func (m *Machine) astray(w who) bool {
	a := m.presence.known[w]
	return a != nil && a.alive != nil && a.alive.Height > 0 && a.alive.Branch != m.chain.branch
}

// sawLife notes progress in a revision. A leader that revises without end gets nowhere: after so many as a ballot's losses can
// explain, they are no progress any more, and somebody else is let try.
func (m *Machine) sawLife(revision uint32) {
	d := m.open
	d.led = true
	if revision > d.revision {
		d.revision = revision
		d.revised++
	}
	if d.revised <= len(d.order)+8 {
		d.life = m.now
	}
}

// onBeat takes any counter that rises as life.
func (m *Machine) onBeat(msg Message, b Beat) error {
	if err := m.follow(msg, b.Ballot); err != nil {
		return err
	}
	d := m.open
	o := &d.beat
	if b.Revision > o.Revision {
		*o = Beat{Ref: b.Ref, Revision: b.Revision}
	}
	if b.Offers > o.Offers || b.Bytes > o.Bytes || b.Haves > o.Haves || b.Votes > o.Votes || b.Segments > o.Segments {
		m.sawLife(b.Revision)
	}
	o.Offers, o.Bytes, o.Haves = max(o.Offers, b.Offers), max(o.Bytes, b.Bytes), max(o.Haves, b.Haves)
	o.Votes, o.Segments = max(o.Votes, b.Votes), max(o.Segments, b.Segments)
	return nil
}

// progressed takes bytes arriving here as life, too: the reduction gets on.
func (m *Machine) progressed(bytes uint64) {
	if d := m.open; bytes > d.bytes {
		d.bytes, d.stirred = bytes, m.now
		if d.plan != nil {
			m.sawLife(d.plan.Revision)
		}
		if d.lead != nil {
			d.lead.stirred = m.now
		}
	}
}

// workOwed says whether the leader has something to do. Its clock runs only then: healthy leaders are not deposed during inner
// steps. A draft of a members record that the leader dropped again is nothing owed.
func (m *Machine) workOwed() bool {
	d := m.open
	return d.plan != nil || d.draft != nil && d.draft.Kind == slot.Step || d.proposal != nil || d.word.vote != nil || m.closingDue() || m.planDue() || m.recordDue()
}

// watchLeader counts how long owed work shows no progress. The k-th candidate after the leader, of those that are heard, waits
// k times the patience, so that they do not outbid each other.
func (m *Machine) watchLeader() {
	d := m.open
	if !m.elector() || !m.workOwed() || m.barred(m.cfg.Self) {
		d.owed = never
		return
	}
	if d.owed == never {
		d.owed = m.now
	}
	if m.leadsPrepared() && (d.seen == d.ballot || m.reducing()) {
		return
	}
	wait := m.patience(d.ballot) * time.Duration(m.turn())
	if m.now-max(d.owed, d.life, d.campaign) >= wait || m.succeeds() {
		m.openBallot()
	}
}

// succeeds says whether it is this peer's turn after a leader that is gone, was removed, or went off on another branch. That needs no patience: the first candidate goes ahead at
// once, each further one twice Timing.Gone later: by so much may two differ in when they saw it. Who hears no quorum is the one that was cut off, more likely.
func (m *Machine) succeeds() bool {
	d := m.open
	leader := ofMember(d.leader(d.ballot))
	since, gone := m.goneSince(leader)
	gone = gone || m.astray(leader) || m.barred(leader.peer)
	step := 2 * m.cfg.Timing.Gone
	if step == 0 && m.barred(leader.peer) {
		step = m.cfg.Timing.Retry
	}
	return gone && step > 0 && m.now-max(d.owed, since, d.campaign) >= step*time.Duration(m.turn()-1) && m.quorumHeard()
}

// leadsPrepared says whether this peer leads the followed ballot and has its quorum of promises: it never deposes itself then, unless
// somebody named a higher ballot and it makes no progress with a draft or a proposal. Who promised that does not vote here any more.
func (m *Machine) leadsPrepared() bool {
	d := m.open
	return d.lead != nil && d.lead.ref.Ballot == d.ballot && d.lead.prepared
}

// reducing says whether this peer's plan is at work: the reduction shows nothing to a leader that does not contribute.
func (m *Machine) reducing() bool {
	l := m.open.lead
	return l.plan != nil && l.draft == nil && l.proposal == nil
}

// turn is this peer's place among the heard members after the followed leader, from 1.
func (m *Machine) turn() int {
	d := m.open
	n := len(d.order)
	k := 0
	for i := 1; i <= n; i++ {
		e := d.order[(int(d.ballot)+i)%n]
		if m.around(ofMember(e)) && !m.barred(e.Peer) {
			k++
		}
		if ofMember(e) == m.presence.self {
			break
		}
	}
	return max(k, 1)
}

// openBallot makes this peer a candidate in its lowest ballot above all seen.
func (m *Machine) openBallot() {
	d := m.open
	if !m.atTip() {
		return
	}
	b := d.seen + 1
	for ofMember(d.leader(b)) != m.presence.self {
		b++
	}
	d.seen, d.campaign = b, m.now
	d.lead = newLeading(d.at(b), m.boot)
	m.sendPrepare()
}

// sendPrepare asks those who have not promised yet.
func (m *Machine) sendPrepare() {
	l := m.open.lead
	l.sentAt = m.now
	m.send(Prepare{l.ref}, m.electorsWithout(func(p slot.PeerID) bool { _, ok := l.promises[p]; return ok })...)
}

// electorsWithout lists the electors for which done does not hold.
func (m *Machine) electorsWithout(done func(slot.PeerID) bool) []slot.PeerID {
	var ps []slot.PeerID
	for _, e := range m.chain.electorate() {
		if !done(e.Peer) {
			ps = append(ps, e.Peer)
		}
	}
	return ps
}
