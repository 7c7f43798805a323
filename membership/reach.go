package membership

import (
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// gone says whether the connection to a peer broke Timing.Gone ago, and nothing was heard of it
// since then, by whatever path. A process that dies takes its connections with it: others act at
// once, and do not wait for Timing.Lost. A peer that lives says so, since it has seen the same.
func (pr *presence) gone(a *contact) bool {
	over := a.brokenAt + pr.cfg.Timing.Gone
	return pr.cfg.Timing.Gone > 0 && a.brokenAt != never && pr.now >= over && a.heard <= over
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
	broken := pr.now
	if up {
		pr.connected[p], broken = true, never
		delete(pr.apart, p)
	} else {
		delete(pr.connected, p)
	}
	for _, a := range pr.known {
		if a.peer == p {
			a.brokenAt = broken
		}
	}
	return pr.cfg.Timing.Gone > 0 && slot.Find(pr.chain.Members(), p) >= 0
}
