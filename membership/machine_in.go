package membership

import (
	"fmt"
	"slices"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// receive hands a message to the part that it is for.
func (m *Machine) receive(msg Message) error {
	switch b := msg.Body.(type) {
	case Alive:
		return m.onAlive(msg, b)
	case Join:
		return m.onJoin(msg, b)
	case Leave:
		return m.onLeave(msg)
	case Need:
		return m.onNeed(msg, b)
	case Commit:
		return m.onCommit(msg, b)
	case ForkVote:
		m.watchWords(msg)
		return m.onForkVote(msg, b)
	case Evidence:
		return m.onEvidence(b)
	case Order:
		return m.onOrder(msg, b.Order)
	case Offer:
		return m.onOffer(msg, b)
	case placed:
		return m.atPlace(msg, b.At())
	}
	return fmt.Errorf("%w: message %T", ErrInvalid, msg.Body)
}

// atPlace lets through what is about the open height on this chain: a message's place is its height and the hash of the record
// before, never a slot alone (HOLES H7). What is early waits until the chain gets there.
func (m *Machine) atPlace(msg Message, ref slot.Ref) error {
	switch next := m.chain.next(); {
	case ref.Height < next.Height:
		return m.onDecided(msg, ref)
	case ref.Height > next.Height:
		return m.onEarly(msg, ref.Height)
	case ref.Prev != next.Prev:
		return fmt.Errorf("%w: it follows another record", ErrStale)
	}
	m.watchWords(msg)
	switch b := msg.Body.(type) {
	case Propose:
		if b.Record.Kind == slot.Fork {
			return m.onForkPropose(msg, b)
		}
		return m.onPropose(msg, b)
	case Plan:
		return m.onPlan(msg, b.Plan)
	case Segment:
		return m.onSegment(msg, b)
	case Lost:
		return m.onLost(msg, b)
	case Draft:
		return m.onDraft(msg, b.Draft)
	case Have:
		return m.onHave(msg, b)
	case Vote:
		return m.onVote(msg, b.Vote)
	case Prepare:
		return m.onPrepare(msg, b.Ref)
	case Promise:
		return m.onPromise(msg, b)
	case Beat:
		return m.onBeat(msg, b)
	}
	return ErrInvalid
}

// onDecided answers who still wants to lead a height that is decided with its certificate.
func (m *Machine) onDecided(msg Message, ref slot.Ref) error {
	switch msg.Body.(type) {
	case Prepare, Propose:
		if ref.Height > 0 && m.chain.hashes[ref.Height-1] == ref.Prev {
			m.send(m.chain.commits[ref.Height-1], msg.From)
		}
	}
	return fmt.Errorf("%w: height %d is decided", ErrStale, ref.Height)
}

// Bounds of what waits for the next record: of all members and of one, so that none pushes out what another said.
const (
	maxEarly     = 256
	maxEarlyFrom = 16
)

// onEarly keeps a member's message for the next height: its COMMIT often travels on another path. Older ones of the same member
// make room. What is further off would not be of use when that COMMIT comes.
func (m *Machine) onEarly(msg Message, height uint64) error {
	if err := m.from(msg); err != nil {
		return err
	}
	m.askOrAwait(msg.From, height-1)
	if height != m.chain.height()+2 {
		return nil
	}
	own, first := 0, -1
	for i, e := range m.early {
		if e.From == msg.From {
			if own++; first < 0 {
				first = i
			}
		}
	}
	switch {
	case own >= maxEarlyFrom:
		m.early = slices.Delete(m.early, first, first+1)
	case len(m.early) >= maxEarly:
		return nil
	}
	m.early = append(m.early, msg)
	return nil
}

// replayEarly takes the early messages again after the chain has grown.
func (m *Machine) replayEarly() {
	early := m.early
	m.early = nil
	for _, msg := range early {
		_ = m.receive(msg) // refused now as it would have been on time
	}
}

// take hands a report to the part that it is for.
func (m *Machine) take(r Report) {
	switch r := r.(type) {
	case ReportOffer:
		m.offer(r)
	case ReportSegment:
		m.stateSegment(r)
	case ReportLost:
		m.part(r)
		m.accuse(r)
	case ReportLinks:
		m.speeds = r
	case ReportProgress:
		m.progressed(r.Bytes)
	case ReportHeld:
		m.held(r)
	case ReportApplied:
		m.applied(r)
	case ReportFailed:
		m.failed(r)
	case ReportConnected:
		m.connected(r)
	case ReportContributes:
		if m.contributes != r.Contributes {
			m.aliveAt = never // the leader waits for those who contribute, and for nobody else
		}
		m.contributes, m.steps = r.Contributes, r.Steps
	case ReportEcho:
		m.onEcho(r.Message)
	case ReportOrders:
		m.give(r)
	case ReportKey:
		m.orders.key = r.Key
	case ReportRecover:
		m.forkNow()
	case ReportLeave:
		m.leaving, m.askedAt = true, never
	}
}
