package membership

import (
	"fmt"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/chain"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// receive gives a message to the part that handles it.
func (m *Machine) receive(msg wire.Message) error {
	switch b := msg.Body.(type) {
	case wire.Alive:
		return m.onAlive(msg, b)
	case wire.Join:
		return m.roster.onJoin(msg, b)
	case wire.Leave:
		m.statements.onLeave(msg, b)
		return m.roster.onLeave(msg, b)
	case wire.Retired:
		return m.statements.onRetired(msg, b)
	case wire.Need:
		return m.catchup.onNeed(msg, b)
	case wire.Commit:
		return m.onCommit(msg, b)
	case wire.ForkVote:
		m.evidence.watchClaims(msg)
		if m.chain.Height() == 0 {
			return m.founder.onVote(msg, b)
		}
		return m.fork.onVote(msg, b)
	case wire.Evidence:
		return m.evidence.onEvidence(msg, b, m.roster.concerns(memberKey{b.Peer, b.Incarnation}))
	case wire.Accuse:
		return m.evidence.onAccuse(msg, b, m.roster.concerns(memberKey{b.Peer, b.Incarnation}))
	case wire.Ask:
		return m.evidence.onAsk(msg, b)
	case wire.Motion:
		return m.motions.onMotion(msg, b.Motion)
	case wire.Offer:
		return m.roster.onOffer(msg, b)
	case wire.Attempt:
		return m.atPlace(msg, b.At())
	}
	return fmt.Errorf("%w: message %T", chain.ErrInvalid, msg.Body)
}

// atPlace lets through what is about the open height on this chain: a message's place is its height
// and the hash of the record before, never a slot alone (HOLES H7). An early message waits until
// the chain gets there.
func (m *Machine) atPlace(msg wire.Message, ref slot.Ref) error {
	m.turnout.note(msg)
	switch next := m.chain.Next(); {
	case ref.Height < next.Height:
		return m.onDecided(msg, ref)
	case ref.Height > next.Height:
		return m.catchup.onEarly(msg, ref.Height)
	case ref.Prev != next.Prev:
		return fmt.Errorf("%w: it follows another record", ErrStale)
	}
	m.evidence.watchClaims(msg)
	switch b := msg.Body.(type) {
	case wire.Propose:
		return m.acceptor.onPropose(msg, b)
	case wire.ForkDraft:
		if m.chain.Height() == 0 {
			return m.founder.onDraft(msg, b)
		}
		return m.fork.onDraft(msg, b, m.competing.gathering != nil)
	case wire.Plan:
		return m.participant.onPlan(msg, b)
	case wire.Segment:
		return m.planner.onSegment(msg, b)
	case wire.Lost:
		if b.Reason == wire.LostSamples {
			return m.audits.onLost(msg, b)
		}
		return m.planner.onLost(msg, b)
	case wire.Draft:
		return m.participant.onDraft(msg, b)
	case wire.Have:
		return m.drafter.onHave(msg, b)
	case wire.Vote:
		return m.leader.onVote(msg, b.Vote)
	case wire.Retry:
		return m.acceptor.onRetry(msg, b.Ref)
	case wire.Promise:
		return m.pacemaker.onPromise(msg, b)
	case wire.Beat:
		return m.acceptor.onBeat(msg, b)
	case wire.Statement:
		return m.statements.onStatement(msg, b)
	}
	return chain.ErrInvalid
}

// onDecided answers a peer that wants to lead a decided height: it sends that height's certificate.
func (m *Machine) onDecided(msg wire.Message, ref slot.Ref) error {
	switch msg.Body.(type) {
	case wire.Promise, wire.Retry, wire.Draft, wire.Propose, wire.ForkDraft:
		if m.chain.Holds(ref.Height) && m.chain.Hash(ref.Height-1) == ref.Prev {
			m.send(m.chain.Commit(ref.Height), msg.From)
		}
	}
	return fmt.Errorf("%w: height %d is decided", ErrStale, ref.Height)
}

// replayEarly takes the early messages again after the chain has grown.
func (m *Machine) replayEarly() {
	for _, msg := range m.catchup.takeEarly() {
		_ = m.receive(msg) // refused, as it would have been on time
	}
}

// handle gives a report to the part that handles it.
func (m *Machine) handle(r Report) {
	switch r := r.(type) {
	case ReportOffer:
		m.own.reported++
		m.own.offer(r)
	case ReportSegment:
		m.participant.stateSegment(r)
	case ReportLost:
		m.presence.noteUnreachable(r)
		m.participant.accuse(r)
	case ReportLinks:
		m.presence.speeds = r
	case ReportProgress:
		m.participant.progressed(r.Bytes)
	case ReportAudited:
		m.audits.report(r)
	case ReportFalseOffer:
		m.audits.convictContributor(r)
	case ReportHeld:
		m.acceptor.held(r)
	case ReportApplied:
		m.takeApplied(r)
	case ReportFailed:
		m.failed(r)
	case ReportConnected:
		m.announcer.hurry = m.presence.noteConnection(r) || m.announcer.hurry
	case ReportContributes:
		if m.own.contributes != r.Contributes {
			m.announcer.pause = 0 // the leader waits for contributors, and for nobody else
		}
		m.own.contributes, m.own.steps = r.Contributes, r.Steps
	case ReportClaims:
		m.own.claims = r
	case ReportClone:
		m.clones.onClone(r.Message)
		m.statements.noteTwin(r.Message)
	case ReportMotions:
		m.motions.give(r)
	case ReportKey:
		m.motions.key = r.Key
	case ReportRecover:
		m.fork.order(m.competing.gathering != nil)
	case ReportReturned:
		m.restart()
	case ReportLeave:
		m.own.leave()
		m.announcer.askedAt = never
	}
}

// restart begins all waiting anew: this peer was away.
func (m *Machine) restart() {
	m.fork.restart()
	m.founder.since = m.now
	m.exit.restart()
	m.competing.restart()
}

// takeApplied takes the worker's report of the state that it holds now.
func (m *Machine) takeApplied(r ReportApplied) {
	if !m.model.applied(r) {
		m.own.dropIfDiverged()
		return
	}
	m.founder.sign()
	if m.model.atTip() && m.chain.Height() > 0 {
		m.announcer.pause = 0
		m.announcer.alive()
	}
}

// onAlive notes where a peer stands. If that peer is further, this one asks it for records.
func (m *Machine) onAlive(msg wire.Message, a wire.Alive) error {
	if a.Applied > a.Height || (a.Height > 0) == a.Branch.IsZero() {
		return chain.Invalid("an ALIVE that contradicts itself")
	}
	from := memberKey{msg.From, msg.Incarnation}
	if from == m.self {
		return ErrStale // somebody repeats what this peer said: it knows better where it stands now
	}
	c := m.presence.known[from]
	if len(a.Claims) == 0 && c.alive != nil {
		a.Claims = c.alive.Claims
	}
	c.alive = &a
	if a.Height == 0 {
		return nil
	}
	ours := m.presence.ours(a)
	if ours && a.Height > m.chain.Height() {
		m.catchup.askOrAwait(msg.From, a.Height)
	}
	// Taken for ours it may still have parted further back: then asking for what follows the tip is
	// in vain, and nobody asks a peer for it that is no further.
	inVain := m.catchup.need.times >= askedInVain
	if m.chain.Height() > 0 && (a.Branch != m.chain.Branch() && (!ours || a.Height <= m.chain.Height()) ||
		m.presence.differs(a) || inVain && !m.chain.Has(a.Height, a.Tip)) || !m.chain.Pinned() {
		m.competing.makeWay(msg.From, a)
		m.competing.meet(msg.From, a)
	}
	return nil
}

// askedInVain is the number of repeated questions for the record above the tip after which this
// peer looks for it further back.
const askedInVain = 2

// failed decides what replaces work that could not be done.
func (m *Machine) failed(r ReportFailed) {
	switch w := r.Work.(type) {
	case WorkApply, WorkSync:
		m.model.failed(w)
	case WorkHold:
		if m.open.fetching == w.Draft.Outcome() {
			m.open.fetchedAt = m.now - 3*m.cfg.Timing.Retry // once more, after a pause
			m.participant.accuseOwners(w.Draft, r.Missing)
		}
	case WorkAccess:
		m.motions.accessFailed(w)
	case WorkFound:
		m.founder.asked, m.founder.since = false, m.now
	case WorkReduce:
		m.participant.reduceFailed(w.Plan)
	}
}
