package membership

import (
	"fmt"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// founding is the way to a chain's first record: a fork of R_0 that lists its founder and needs only that signature.
type founding struct {
	since time.Duration // the discovery window counts from here
	asked bool          // the worker makes the initial state durable
	fork  *EntryFork    // the newest attempt signed
	sent  time.Duration
}

func newFounding(saved *EntryFork) founding { return founding{fork: saved, sent: never} }

// considerFounding founds the run when nobody with a chain was heard for the discovery window. Of peers that see each other the
// lowest ID does; the others give it four windows more each before they think that it cannot.
func (m *Machine) considerFounding() {
	f := &m.founding
	if m.chain.height() > 0 || m.leaving || m.cfg.NeverFounds || !m.chain.pinned {
		return
	}
	place, ok := m.foundingPlace()
	if !ok {
		return
	}
	if f.asked {
		m.signFounding()
		return
	}
	if f.fork == nil && m.now-f.since < m.cfg.Timing.FoundAfter*time.Duration(1+4*place) {
		return
	}
	f.asked = true
	if m.state.known {
		m.signFounding()
		return
	}
	m.state.fromDisk = true
	m.work(WorkFound{})
}

// claimsAsked is how often those who claim to have a chain are asked for it in vain before their word does not count any more.
const claimsAsked = 8

// foundingPlace counts the heard peers before this one; false while somebody has a chain.
func (m *Machine) foundingPlace() (place int, ok bool) {
	others := func(a *acquaintance) bool { return a.alive != nil && a.who != m.presence.self && m.around(a.who) }
	for _, a := range m.presence.sorted(others) {
		if a.alive.Height > 0 && m.need.times < claimsAsked {
			return 0, false
		}
		if a.peer < m.cfg.Self {
			place++
		}
	}
	return place, true
}

// signFounding signs the first record once its initial state is durable. I6: one signature an attempt. A restarted founder says
// the one it gave again, unless the state that it was for is gone: that is another attempt.
func (m *Machine) signFounding() {
	f := &m.founding
	if m.chain.height() > 0 || !f.asked || !m.state.known {
		return
	}
	if f.fork == nil || f.fork.Record.StateRoot != m.state.root {
		at := m.chain.next()
		if f.fork != nil {
			at.Ballot = f.fork.Ballot + 1
		}
		f.fork = &EntryFork{at, slot.Record{
			Run: m.cfg.Rules.Run, Height: 1, Kind: slot.Fork, Prev: at.Prev, StateRoot: m.state.root,
			Members: []slot.Member{m.chain.listed(m.cfg.Self, m.cfg.Incarnation)},
		}}
		f.sent = never
		m.open.word.fork = f.fork
		m.persist(*f.fork)
	}
	m.sendForkVote()
}

func (m *Machine) sendForkVote() {
	f := &m.founding
	if m.now-f.sent < m.cfg.Timing.Retry {
		return
	}
	f.sent = m.now
	m.send(ForkVote{slot.Vote{Ref: f.fork.Ref, Hash: f.fork.Record.Hash()}}, m.cfg.Self)
}

// onFounding makes the founding's certificate of the own signature.
func (m *Machine) onFounding(msg Message, v ForkVote) error {
	f := &m.founding
	if msg.From != m.cfg.Self || msg.Incarnation != m.cfg.Incarnation {
		return ErrSender
	}
	if f.fork == nil || v.Ref != f.fork.Ref || v.Hash != f.fork.Record.Hash() {
		return fmt.Errorf("%w: another founding came first", ErrStale)
	}
	sigs := map[slot.PeerID][]byte{msg.From: msg.Sig}
	m.gossip(Commit{Record: f.fork.Record, Certificate: certificate(v.Vote, sigs)}, m.cfg.Self)
	return nil
}
