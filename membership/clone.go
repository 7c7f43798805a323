package membership

import (
	"slices"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// One identity used twice: a key copied to two machines, or an old copy of a data directory put back. Both break what the others
// rely on, that an incarnation remembers what it said. What shows it must be something that this process cannot have said before,
// and that nobody can make by saying again what it did say:
//
//   - a certificate with a vote or fork signature of this incarnation, or a contribution of it, that is not in its log: words are on
//     disk before they are sent, so the log is an old copy, or another process has one, too;
//   - an ALIVE of another incarnation under this identity about a record that is not older than the membership of this one: an earlier
//     life had ended before the record that lists this one was made. (Having caught up would not do: a branch, or a part of the chain,
//     that comes later may be older than this life.)
const cloneAdvice = "this identity is used by another process at the same time, or the data directory is an old copy: stop the other " +
	"process; if there is none, move ledger.log and state/ away, and the peer comes back as a new member"

// onEcho looks at what somebody else said under this peer's name.
func (m *Machine) onEcho(msg Message) {
	a, ok := msg.Body.(Alive)
	self, member := findMember(m.chain.electorate(), m.cfg.Self, m.cfg.Incarnation)
	if ok && member && msg.From == m.cfg.Self && msg.Incarnation != m.cfg.Incarnation && a.Height >= self.Since && m.chain.has(a.Height, a.Tip) {
		m.cloned(m.cfg.Self, "another process speaks under this peer's identity; "+cloneAdvice)
	}
}

// cloned says once about a peer that its identity is used twice.
func (m *Machine) cloned(p slot.PeerID, detail string) {
	if slices.Contains(m.clones, p) {
		return
	}
	m.clones = append(m.clones, p)
	m.clones = m.clones[max(0, len(m.clones)-maxDoubted):]
	m.event(Event{Kind: EventCloned, Height: m.chain.height(), Slot: m.chain.tip().Slot, Peer: p, Detail: detail})
}

// checkOwnWords looks into a certified record for words of this incarnation that its log does not have.
func (m *Machine) checkOwnWords(c Commit, electorate []slot.Member) {
	r, cert := c.Record, c.Certificate
	at := place{r.Height, r.Prev}
	w := m.words[at]
	if d := m.open; at == (place{d.ref.Height, d.ref.Prev}) {
		w = d.word
	}
	signed := slices.ContainsFunc(cert.Signatures, func(s slot.Signature) bool { return s.Peer == m.cfg.Self })
	mine := func(ms []slot.Member) bool { _, ok := findMember(ms, m.cfg.Self, m.cfg.Incarnation); return ok }
	forgot := false
	if r.Kind == slot.Fork {
		forgot = signed && mine(r.Members) && (w.fork == nil || w.fork.Ballot < cert.Ballot)
	} else {
		// A record that is known to be decided, and was given up with its branch, is kept as one vote: in the ballot of one certificate.
		forgot = signed && mine(electorate) && (w.vote == nil || w.vote.Ballot < cert.Ballot && w.vote.Record.Hash() != r.Hash())
	}
	for _, o := range r.Contributions {
		forgot = forgot || o.Peer == m.cfg.Self && o.Seq > m.offerSeq && mine(electorate)
	}
	if forgot {
		m.cloned(m.cfg.Self, "the chain has words of this peer that its ledger.log does not know; "+cloneAdvice)
	}
}

// noteTwins names a peer of which two incarnations are alive at once: both speak of records decided after the younger one was met.
func (m *Machine) noteTwins(a *acquaintance) {
	for _, o := range m.presence.known {
		if o.peer != a.peer || o.inc == a.inc || o.alive == nil || a.alive == nil || !m.around(o.who) {
			continue
		}
		both := max(a.met, o.met)
		if a.alive.Height > both && o.alive.Height > both && m.chain.has(a.alive.Height, a.alive.Tip) && m.chain.has(o.alive.Height, o.alive.Tip) {
			m.cloned(a.peer, "two processes use this peer's identity at once: one of them must be stopped")
		}
	}
}
