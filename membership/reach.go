package membership

import (
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// A process that dies takes its connections with it, and all that had one see that at once. So a member is gone, before
// Timing.Lost runs out, when it was reached and is not any more: no connection here, and nobody who is about says it has one
// (HOLES H21: A and C that cannot connect both reach B). Timing.Gone is the time that it has to connect again, and that the
// others' ALIVEs take to get here; whoever is heard after that is alive, by whatever path. Where it differs from not heard
// is only how soon others act; it is a member until it is not heard for Timing.Lost.

// reach is what is known of the ways to one member.
type reach struct {
	ever    bool          // since it became a member it was connected to somebody
	none    bool          // and it is not any more
	noneFor time.Duration // since when
}

func (r *reach) found() { *r = reach{ever: true} }

// watchReach follows who is reached, here or by those who are about.
func (m *Machine) watchReach() {
	witnesses, missing := m.reachable()
	for len(witnesses) > 0 && len(missing) > 0 {
		w := witnesses[0]
		witnesses = witnesses[1:]
		if w.alive == nil {
			continue
		}
		for _, p := range w.alive.Reaches {
			if a := missing[p]; a != nil {
				delete(missing, p)
				a.reach.found()
				witnesses = append(witnesses, a)
			}
		}
	}
	for _, a := range missing {
		if a.reach.ever && !a.reach.none {
			a.reach.none, a.reach.noneFor = true, m.now
		}
	}
}

// reachable splits the members that were heard lately: those whose word counts, as they are connected here or were never known to
// be connected to anybody; and those that somebody's word must speak for. Two that died together speak for each other in vain.
func (m *Machine) reachable() (witnesses []*acquaintance, missing map[slot.PeerID]*acquaintance) {
	missing = map[slot.PeerID]*acquaintance{}
	for _, e := range m.chain.electorate() {
		a := m.presence.known[ofMember(e)]
		if a == nil || a.who == m.presence.self || m.now-a.heard > m.cfg.Timing.Lost {
			continue
		}
		switch {
		case m.presence.connected[e.Peer]:
			a.reach.found()
			witnesses = append(witnesses, a)
		case !a.reach.ever:
			witnesses = append(witnesses, a)
			missing[e.Peer] = a
		default:
			missing[e.Peer] = a
		}
	}
	return witnesses, missing
}

// gone says whether nobody has reached a member for Timing.Gone, nor heard it after that.
func (m *Machine) gone(a *acquaintance) bool {
	over := a.reach.noneFor + m.cfg.Timing.Gone
	return m.cfg.Timing.Gone > 0 && a.reach.none && m.now >= over && a.heard <= over
}

// goneSince says when a peer ceased to be around, if it has.
func (m *Machine) goneSince(w who) (since time.Duration, is bool) {
	a := m.presence.known[w]
	switch {
	case a == nil || m.around(w):
		return 0, false
	case m.gone(a):
		return min(a.reach.noneFor+m.cfg.Timing.Gone, a.heard+m.cfg.Timing.Lost), true
	}
	return a.heard + m.cfg.Timing.Lost, true
}

// connected notes whether a connection exists, and which way it leads. That one to a member broke, or came back, is announced at once: all must
// know before they can tell a peer that died from a link that broke.
func (m *Machine) connected(r ReportConnected) {
	p, up := r.Peer, r.Connected
	delete(m.presence.relayed, p)
	if up && r.Relayed {
		m.presence.relayed[p] = true
	}
	if m.presence.connected[p] == up {
		return
	}
	if up {
		m.presence.connected[p] = true
		delete(m.apart, p)
	} else {
		delete(m.presence.connected, p)
	}
	if i := slot.Find(m.chain.electorate(), p); i >= 0 && m.cfg.Timing.Gone > 0 {
		a := m.presence.known[ofMember(m.chain.electorate()[i])]
		m.hurry = m.hurry || a != nil && a.reach.ever
	}
}

// aliveDue says whether it is time for an ALIVE. News of connections come before their time, but not as often as a link flaps.
func (m *Machine) aliveDue() bool {
	since := m.now - m.aliveAt
	return since >= m.cfg.Timing.Alive || m.hurry && since >= m.cfg.Timing.Gone/2
}
