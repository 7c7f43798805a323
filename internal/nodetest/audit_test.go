package nodetest

import (
	"cmp"
	"slices"
	"time"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// audit watches a swarm's peers over all their lives, and keeps what each has ever shown as
// certified or held. It knows chains by their records' hashes, so that two foundings, or a fork,
// are told from a contradiction.
//
// It checks I1 (a record has at most one certified successor that is a step or a change of
// members), I2 (equal states after equal records, and equal to the certified root), that no process
// ends by itself with an error, and that the chain grows while it can.
type audit struct {
	s       *Swarm
	records map[p2pdiloco.Root]wire.Commit    // certified, by hash
	next    map[p2pdiloco.Root]p2pdiloco.Root // the step or members record after each
	states  map[p2pdiloco.Root]p2pdiloco.Root // after each record
	// hashes of the chain that the peer showed last, by height
	seen map[*Peer][]p2pdiloco.Root
	// the tip of most work that a living peer shows, or the last one
	best slot.Record
	rose time.Time // when the newest record was first shown
}

func newAudit(s *Swarm) *audit {
	return &audit{
		s: s, records: make(map[p2pdiloco.Root]wire.Commit), next: make(map[p2pdiloco.Root]p2pdiloco.Root),
		states: make(map[p2pdiloco.Root]p2pdiloco.Root),
		seen:   make(map[*Peer][]p2pdiloco.Root), rose: time.Now(),
	}
}

// all looks at every living peer.
func (a *audit) all() {
	a.s.T.Helper()
	var best slot.Record
	for _, p := range a.s.Peers {
		a.look(p)
		if l := p.Ledger(); l != nil {
			if tip := l.View().Tip; cmp.Or(cmp.Compare(tip.Work, best.Work),
				cmp.Compare(tip.Height, best.Height)) > 0 {
				best = tip
			}
		}
	}
	if best.Height > 0 {
		a.best = best
	}
}

// look takes in what a peer shows now.
func (a *audit) look(p *Peer) {
	a.s.T.Helper()
	l := p.Ledger()
	if l == nil {
		return
	}
	v := l.View()
	seen := a.seen[p]
	for len(seen) > 0 { // back to what its chain still has: it may have been given up for another
		if c, ok := l.Record(uint64(len(seen))); ok && c.Record.Hash() == seen[len(seen)-1] {
			break
		}
		seen = seen[:len(seen)-1]
	}
	for {
		c, ok := l.Record(uint64(len(seen)) + 1)
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
func (a *audit) certified(p *Peer, c wire.Commit) p2pdiloco.Root {
	a.s.T.Helper()
	r, hash := c.Record, c.Record.Hash()
	if _, known := a.records[hash]; known {
		return hash
	}
	a.records[hash], a.rose = c, time.Now()
	if r.Kind != slot.Fork {
		if other, two := a.next[r.Prev]; two {
			a.s.T.Errorf("host %d: record %d %s is certified, and so is %s", p.Host, r.Height, hash.Short(),
				other.Short())
		}
		a.next[r.Prev] = hash
	}
	if r.Height > 1 {
		a.held(p, r.Prev, r.StateRoot)
	}
	return hash
}

// held takes in the root of a state after a record.
func (a *audit) held(p *Peer, record, state p2pdiloco.Root) {
	a.s.T.Helper()
	if other, known := a.states[record]; known && other != state {
		a.s.T.Errorf("host %d: the state after record %s is %s, elsewhere %s", p.Host, record.Short(), state.Short(),
			other.Short())
	}
	a.states[record] = state
}

// finished checks that peers that have finished hold one chain, with all slots and every record of
// it that was ever certified. A peer that went when its time to linger was over may lack records of
// members at the end.
func (a *audit) finished(peers []*Peer) {
	a.s.T.Helper()
	a.all()
	longest := slices.MaxFunc(
		peers,
		func(p, q *Peer) int { return cmp.Compare(len(a.seen[p]), len(a.seen[q])) },
	)
	first := a.seen[longest]
	for _, p := range peers {
		if n := len(a.seen[p]); !slices.Equal(a.seen[p], first[:n]) {
			a.s.T.Errorf("host %d ends with another chain than host %d: %d and %d records", p.Host, longest.Host, n,
				len(first))
		}
		if at := p.Ledger().View().AppliedSlot; at != a.s.Spec.LastSlot() {
			a.s.T.Errorf("host %d ends at slot %d of %d", p.Host, at, a.s.Spec.LastSlot())
		}
	}
	for hash, c := range a.records {
		if a.lost(hash, first) {
			a.s.T.Errorf("record %d (slot %d) was certified and is lost", c.Record.Height, c.Record.Slot)
		}
	}
}

// lost says whether a certified record is missing in a chain though it should be there: where the
// two part, neither goes on with a fork. Of two branches one gives way, with all that was certified
// on it since.
func (a *audit) lost(hash p2pdiloco.Root, chain []p2pdiloco.Root) bool {
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
