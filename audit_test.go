package p2pdiloco

import (
	"cmp"
	"slices"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership"
)

// audit watches a swarm's peers over all their lives, and keeps what each has ever shown as certified or held. It knows chains by
// their records' hashes, so that two foundings, or a fork, are told from a contradiction.
//
// It checks I1 (a record has at most one certified successor that is a step or a change of members), I2 (equal states after equal
// records, and equal to the certified root), that no process ends by itself with an error, and that the chain grows while it can.
type audit struct {
	s       *swarm
	records map[Root]membership.Commit // certified, by hash
	next    map[Root]Root              // the step or members record after each
	states  map[Root]Root              // after each record
	seen    map[*simPeer][]Root        // hashes of the chain that the peer showed last, by height
	best    slot.Record                // the tip of most work that a living peer shows, or the last one
	rose    time.Time                  // when the newest record was first shown
}

func newAudit(s *swarm) *audit {
	return &audit{
		s: s, records: make(map[Root]membership.Commit), next: make(map[Root]Root), states: make(map[Root]Root),
		seen: make(map[*simPeer][]Root), rose: time.Now(),
	}
}

// all looks at every living peer.
func (a *audit) all() {
	a.s.t.Helper()
	var best slot.Record
	for _, p := range a.s.peers {
		a.look(p)
		if n := p.node.Load(); n != nil && n.driver != nil {
			if tip := n.driver.View().Tip; cmp.Or(cmp.Compare(tip.Work, best.Work), cmp.Compare(tip.Height, best.Height)) > 0 {
				best = tip
			}
		}
	}
	if best.Height > 0 {
		a.best = best
	}
}

// look takes in what a peer shows now.
func (a *audit) look(p *simPeer) {
	a.s.t.Helper()
	n := p.node.Load()
	if n == nil || n.driver == nil {
		return
	}
	v := n.driver.View()
	seen := a.seen[p]
	for len(seen) > 0 { // back to what its chain still has: it may have been given up for another
		if c, ok := n.driver.Record(uint64(len(seen))); ok && c.Record.Hash() == seen[len(seen)-1] {
			break
		}
		seen = seen[:len(seen)-1]
	}
	for {
		c, ok := n.driver.Record(uint64(len(seen)) + 1)
		if !ok {
			break
		}
		seen = append(seen, a.certified(p, c))
	}
	a.seen[p] = seen
	if v.Synced && v.Applied > 0 && v.Applied <= uint64(len(seen)) && v.Founding == seen[0] {
		a.held(p, seen[v.Applied-1], v.StateRoot)
	}
}

// certified takes in a record and returns its hash.
func (a *audit) certified(p *simPeer, c membership.Commit) Root {
	a.s.t.Helper()
	r, hash := c.Record, c.Record.Hash()
	if _, known := a.records[hash]; known {
		return hash
	}
	a.records[hash], a.rose = c, time.Now()
	if r.Kind != slot.Fork {
		if other, two := a.next[r.Prev]; two {
			a.s.t.Errorf("host %d: record %d %s is certified, and so is %s", p.host, r.Height, hash.Short(), other.Short())
		}
		a.next[r.Prev] = hash
	}
	if r.Height > 1 {
		a.held(p, r.Prev, r.StateRoot)
	}
	return hash
}

// held takes in the root of a state after a record.
func (a *audit) held(p *simPeer, record, state Root) {
	a.s.t.Helper()
	if other, known := a.states[record]; known && other != state {
		a.s.t.Errorf("host %d: the state after record %s is %s, elsewhere %s", p.host, record.Short(), state.Short(), other.Short())
	}
	a.states[record] = state
}

// finished checks that peers who have finished hold one chain, with all slots and every record of it that was ever certified. Who
// went when its time to linger was over may lack records of members at the end.
func (a *audit) finished(peers []*simPeer) {
	a.s.t.Helper()
	a.all()
	longest := slices.MaxFunc(peers, func(p, q *simPeer) int { return cmp.Compare(len(a.seen[p]), len(a.seen[q])) })
	first := a.seen[longest]
	for _, p := range peers {
		if n := len(a.seen[p]); !slices.Equal(a.seen[p], first[:n]) {
			a.s.t.Errorf("host %d ends with another chain than host %d: %d and %d records", p.host, longest.host, n, len(first))
		}
		if at := p.node.Load().driver.View().AppliedSlot; at != a.s.spec.LastSlot() {
			a.s.t.Errorf("host %d ends at slot %d of %d", p.host, at, a.s.spec.LastSlot())
		}
	}
	for hash, c := range a.records {
		if a.lost(hash, first) {
			a.s.t.Errorf("record %d (slot %d) was certified and is lost", c.Record.Height, c.Record.Slot)
		}
	}
}

// lost says whether a certified record is missing in a chain though it should be there: where the two part, neither goes on with a
// fork. Of two branches one gives way, with all that was certified on it since.
func (a *audit) lost(hash Root, chain []Root) bool {
	if slices.Contains(chain, hash) {
		return false
	}
	forked := false
	for !slices.Contains(chain, hash) {
		r := a.records[hash].Record
		if forked = forked || r.Kind == slot.Fork; r.Height == 1 {
			return false // another founding
		}
		hash = r.Prev
	}
	next := int(a.records[hash].Record.Height) // the index of the record above
	return !forked && (next == len(chain) || a.records[chain[next]].Record.Kind != slot.Fork)
}

// streams compares the events of all peers: every slot was committed with one outcome, unless a chain was given up.
func (a *audit) streams() {
	a.s.t.Helper()
	type place struct {
		height uint64
		root   Root
	}
	outcomes := make(map[uint64]place)
	for _, p := range a.s.peers {
		if p.had("run.switched") {
			return
		}
	}
	for _, p := range a.s.peers {
		for _, e := range p.events("slot.committed") {
			at := place{e.Fields["height"].(uint64), e.Fields["outcome_root"].(Root)}
			number := e.Fields["slot"].(uint64)
			if other, known := outcomes[number]; known && other != at {
				a.s.t.Errorf("host %d: slot %d was committed as %v, elsewhere as %v", p.host, number, at, other)
			}
			outcomes[number] = at
		}
	}
}
