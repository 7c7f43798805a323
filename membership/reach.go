package membership

import (
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// A process that dies takes its connections with it, and all peers that had one see that at once.
// So a member counts as gone, before Timing.Lost runs out, when it was reached and is not any more:
// this peer has no connection to it, and no peer that is heard announces one (HOLES H21: A and C
// that cannot connect both reach B). Timing.Gone is the time that it has to connect again, and that
// the others' ALIVEs take to get here; a peer that is heard after that is alive, by whatever path.
// Being gone differs from not being heard only in how soon others act. The peer stays a member
// until it was not heard for Timing.Lost.

// watchReach follows which members are reached, here or by peers that are heard.
func (pr *presence) watchReach() {
	witnesses, missing := pr.reachable()
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
			a.reach.none, a.reach.noneFor = true, pr.now
		}
	}
}

// reachable splits the members that were heard lately. Witnesses are connected here, or were never
// known to be connected to any peer: what they announce counts. The missing must be reached by a
// witness to count as reached. So two members that died together cannot vouch for each other.
func (pr *presence) reachable() (witnesses []*contact, missing map[slot.PeerID]*contact) {
	missing = map[slot.PeerID]*contact{}
	for _, e := range pr.chain.Members() {
		a := pr.known[ofMember(e)]
		if a == nil || a.memberKey == pr.self || pr.now-max(a.heard, pr.busy) > pr.lost() {
			continue
		}
		switch {
		case pr.connected[e.Peer]:
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
func (pr *presence) gone(a *contact) bool {
	over := a.reach.noneFor + pr.cfg.Timing.Gone
	return pr.cfg.Timing.Gone > 0 && a.reach.none && pr.now >= over && a.heard <= over
}

// noteConnection notes whether a connection exists, and which way it leads. It returns news if one
// to a member broke or came back: all peers must know that at once, to tell a peer that died from a
// link that broke.
func (pr *presence) noteConnection(r ReportConnected) (news bool) {
	p, up := r.Peer, r.Connected
	delete(pr.relayed, p)
	if up && r.Relayed {
		pr.relayed[p] = true
	}
	if pr.connected[p] == up {
		return false
	}
	if up {
		pr.connected[p] = true
		delete(pr.apart, p)
	} else {
		delete(pr.connected, p)
	}
	if i := slot.Find(pr.chain.Members(), p); i >= 0 && pr.cfg.Timing.Gone > 0 {
		a := pr.known[ofMember(pr.chain.Members()[i])]
		return a != nil && a.reach.ever
	}
	return false
}
