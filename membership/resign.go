package membership

import "github.com/p2pdiloco/p2pdiloco/internal/slot"

// resign ends the term of this leader, which cannot finish it, where members may lie: it promises
// the next one, whose leader may have what this one lacks. It returns false where it goes on: where
// fewer withstand no liar, and for a while once all electors have led this height.
func (pn *planner) resign(why string) bool {
	l, n := pn.open.lead, uint32(len(pn.chain.Electorate()))
	term := l.ref.Term()
	if pn.tolerated() == 0 || !pn.acceptor.leadsPrepared() {
		return false
	}
	if term >= n && pn.now-l.since < pn.cfg.Timing.Retry<<min(term/n, 6) {
		return true // it has no more to do meanwhile
	}
	pn.reportPeer(EventResigned, "", pn.cfg.Self, "this leader ends its term: "+why)
	pn.acceptor.reach((term + 1) * slot.Tries)
	return true
}

// lacks says whether a step from the living peers of a plan would lack electors that no step may,
// in the term of this leader.
func (pn *planner) lacks(p slot.Plan) bool {
	return !pn.chain.Inclusion(pn.open.lead.ref.Ballot).Holds(p.Offers, livingSet(p))
}
