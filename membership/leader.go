package membership

import (
	"slices"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// leading is what a ballot's leader keeps in memory. Losing it costs time, never agreement: what binds is its vote, on disk.
type leading struct {
	ref      slot.Ref
	prepared bool // may propose: ballot 0, or a quorum has promised
	promises map[slot.PeerID]Promise
	forced   *slot.Record // what the promises say must be proposed again, unchanged

	plan     *slot.Plan
	group    slot.Root // of the plan
	revision uint32    // of the newest plan or draft; starts above any that an earlier process of this peer used
	revised  int       // revisions of this attempt
	segments map[uint64]slot.Segment
	reports  []report                      // who lost whom, in this group
	narrow   map[slot.PeerID]time.Duration // owners that stated ranges of too few contributors, since when
	excluded map[slot.PeerID]uint64        // left out of plans: the sequence number of the offer they were left out with
	banned   map[slot.PeerID]struct{}      // of these, for what they sent
	holdOff  time.Duration                 // no plan before this time
	failures int                           // attempts given up at this height
	parted   []slot.PeerID                 // left out of rings on a neighbour's word
	givenUp  slot.Root                     // the group of the last one
	stirred  time.Duration                 // when the reduction last got on, by a statement or by bytes that came here
	hushed   bool                          // owners that owed statements were left out
	owing    []slot.PeerID                 // owners that owe statements
	owingAt  time.Duration                 // since when these

	draft     *slot.Draft
	draftAt   time.Duration
	haves     map[who]bool // that hold the draft's outcome and the same state as this peer
	membersAt time.Duration

	proposal *slot.Record
	votes    map[slot.PeerID][]byte // signatures of equal votes, equal in the ballot too (HOLES H4)
	decided  bool

	sentAt time.Duration
	beatAt time.Duration
}

// newLeading starts revisions at the store's boot count: a leader that restarts in its ballot revises what it planned before.
func newLeading(ref slot.Ref, boot uint64) *leading {
	return &leading{
		ref: ref, revision: uint32(boot&0xffff) << 16, promises: map[slot.PeerID]Promise{}, excluded: map[slot.PeerID]uint64{},
		banned: map[slot.PeerID]struct{}{}, narrow: map[slot.PeerID]time.Duration{}, sentAt: never, beatAt: never, holdOff: never, membersAt: never, draftAt: never,
	}
}

// resumeLead takes up the lead that this peer has at the open height without asking: ballot 0, while nothing is promised above
// it, or the ballot in which it proposed before it restarted: then that very record again and no other (HOLES H5).
func (m *Machine) resumeLead() {
	d := m.open
	self := func(b uint32) bool { return ofMember(d.leader(b)) == m.presence.self }
	switch v := d.word.vote; {
	case v != nil && v.Ballot == d.word.floor() && self(v.Ballot):
		d.lead = newLeading(v.Ref, m.boot)
		d.lead.prepared, d.lead.proposal, d.lead.votes = true, &v.Record, map[slot.PeerID][]byte{}
	case v == nil && d.word.floor() == 0 && self(0):
		d.lead = newLeading(d.ref, m.boot)
		d.lead.prepared = true
	}
}

// lead does the leader's next thing, if this peer leads.
func (m *Machine) lead() {
	l := m.open.lead
	if l == nil || l.decided {
		return
	}
	if l.ref.Ballot < m.open.word.floor() {
		m.open.lead = nil
		return
	}
	switch {
	case !l.prepared:
		m.choose()
	case l.proposal != nil: // waits for votes
	case l.forced != nil:
		m.proposeAgain()
	case !m.atTip() || !m.quorumHeard(): // nothing that it started now could be decided
	case l.draft != nil:
		m.proposeDraft()
	case l.plan != nil:
		m.closePlan()
	default:
		m.startWork()
	}
}

// startWork opens what is owed: the closing record, a step, or a change of members.
func (m *Machine) startWork() {
	l := m.open.lead
	switch {
	case m.closingDue():
		m.draftMembers()
	case m.accessDue() && m.barred(m.cfg.Self): // the others take over: this peer must not choose their secret
	case m.open.last != nil && m.open.last.Group() != l.givenUp && m.chain.takesStep():
		m.continuePlan()
	case m.draftsAccess() && m.now >= l.membersAt:
		m.draftMembers()
	case m.planDue() && m.now >= l.holdOff:
		m.startPlan()
	case m.membersDue() && m.now >= l.membersAt:
		m.draftMembers()
	}
}

// propose puts the record to the vote, once a ballot (HOLES H1). The proposal is the leader's own vote, and on disk first (H5).
func (m *Machine) propose(r slot.Record) {
	l := m.open.lead
	l.proposal, l.votes, l.draft, l.plan = &r, map[slot.PeerID][]byte{}, nil, nil
	m.tellRecord(EventProposed, r, l.ref.Ballot)
	m.recordVote(l.ref.Ballot, r)
	m.sendProposal()
}

func (m *Machine) sendProposal() {
	l := m.open.lead
	l.sentAt = m.now
	voted := func(p slot.PeerID) bool { _, ok := l.votes[p]; return ok }
	to := m.electorsWithout(voted)
	if slices.Contains(to, m.cfg.Self) {
		to = without(to, m.cfg.Self)
		m.sendVote()
	}
	m.send(Propose{Ballot: l.ref.Ballot, Record: *l.proposal}, to...)
}

// onVote counts the votes for the own proposal in its ballot. A quorum of them is the certificate.
func (m *Machine) onVote(msg Message, v slot.Vote) error {
	if err := m.from(msg); err != nil {
		return err
	}
	l := m.open.lead
	if l == nil || l.proposal == nil || v.Ref != l.ref {
		return ErrStale
	}
	if v.Hash != l.proposal.Hash() {
		return invalid("a vote for a record that was not proposed")
	}
	l.votes[msg.From] = msg.Sig
	voted := func(e slot.Member) bool { return l.votes[e.Peer] != nil }
	if !l.decided && slot.Quorum(m.chain.electorate(), voted) {
		l.decided = true
		m.commit(v)
	}
	return nil
}

// commit sends the certificate to everybody whom it concerns, this peer included: it is adopted like anybody's.
func (m *Machine) commit(v slot.Vote) {
	l := m.open.lead
	c := Commit{Record: *l.proposal, Certificate: certificate(v, l.votes)}
	for _, d := range c.Record.Decisions { // who may have been dropped before learns why
		if d.Action == slot.Remove && slot.Find(m.chain.electorate(), d.Peer) < 0 {
			m.send(c, d.Peer)
		}
	}
	m.gossip(c, m.firstToHear(c)...)
}

func certificate(v slot.Vote, signatures map[slot.PeerID][]byte) slot.Certificate {
	c := slot.Certificate{Vote: v}
	for p, sig := range signatures {
		c.Signatures = append(c.Signatures, slot.Signature{Peer: p, Sig: sig})
	}
	slices.SortFunc(c.Signatures, func(a, b slot.Signature) int { return cmpPeer(a.Peer, b.Peer) })
	return c
}

// repeatAsLeader says again what was not answered within Timing.Retry.
func (m *Machine) repeatAsLeader() {
	l := m.open.lead
	if l == nil || m.now-l.sentAt < m.cfg.Timing.Retry {
		return
	}
	switch {
	case l.decided:
		l.decided = false // the own COMMIT was not signed in time; the next vote makes it again
		m.sendProposal()
	case !l.prepared:
		m.sendPrepare()
	case l.proposal != nil:
		m.sendProposal()
	case l.draft != nil:
		m.sendDraft()
	case l.plan != nil:
		m.sendPlan()
	}
}

// beat shows the electors that the lead gets on. Counters rise only with real progress.
func (m *Machine) beat() {
	l := m.open.lead
	if l == nil || !l.prepared || m.now-l.beatAt < m.cfg.Timing.Beat || l.plan == nil && l.draft == nil && l.proposal == nil {
		return
	}
	l.beatAt = m.now
	m.send(Beat{
		Ref: l.ref, Revision: l.revision, Offers: uint32(len(m.offers())), Bytes: m.open.bytes, Haves: uint32(len(l.haves)),
		Votes: uint32(len(l.votes)), Segments: uint32(len(l.segments)),
	}, peersOf(m.chain.electorate())...)
}
