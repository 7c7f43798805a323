package chaos

import (
	"slices"

	"github.com/p2pdiloco/p2pdiloco"
)

// mayBegin says whether a quorum remains during a fault, and whether no other fault is under way
// for kinds that need that.
func (r *runner) mayBegin(next Fault) bool {
	w := next.Kind.row()
	for _, f := range r.active {
		if f.is(alone) || w.is(alone) || next.Kind == f.Kind && (w.pick == boot || w.pick == leader) {
			return false
		}
	}
	switch {
	case w.is(alone), w.pick == boot:
		return true
	case w.pick == newcomer:
		return len(r.nodes) < maxPeers
	}
	hurt, up := 1, -1 // with its victim
	for _, p := range r.nodes {
		if p.hurt != nil && p.hurt.pick != newcomer {
			hurt++
		}
	}
	if r.chasing() {
		hurt, up = hurt+1, up-1
	}
	up += len(r.sound())
	return hurt <= r.mayFail(r.cfg.Peers) && up > 0 && len(r.ledger.members)-up <= r.mayFail(r.electors())
}

// electors is how many members have a vote, by the newest status: with trust byzantine a peer that
// lost its data has none for some slots. The peer that is hurt may be one of them.
func (r *runner) electors() int {
	n, height := len(r.ledger.members), uint64(0)
	for _, p := range r.nodes {
		if a := p.status.Agreement; a != nil && p.status.Height > height {
			n, height = min(len(r.ledger.members), a.Electors), p.status.Height
		}
	}
	return n
}

// mayFail is how many of n electors may be down at once: less than half of them, and with trust
// byzantine less than a third.
func (r *runner) mayFail(n int) int {
	if !r.cfg.forks() && n >= 4 {
		return (n - 1) / 3
	}
	return (n - 1) / 2
}

// sound lists the members that no fault hurts.
func (r *runner) sound() (some []*node) {
	for _, p := range r.nodes {
		if p.running() && p.hurt == nil && slices.Contains(r.ledger.members, p.ID) {
			some = append(some, p)
		}
	}
	return some
}

// victims draws the peers that a fault hurts.
func (r *runner) victims(f *fault) []*node {
	sound := r.sound()
	most := r.mayFail(min(len(sound), r.electors()))
	n := 1
	switch f.pick {
	case all:
		return slices.Clone(r.nodes)
	case boot:
		return nil
	case majority:
		n = len(sound)/2 + 1
	case newcomer:
		return []*node{r.addNode()}
	case pair:
		n = 2
	case neighbours:
		n = max(1, min(2, most))
	case side:
		if most = max(1, most); r.cfg.forks() {
			most = len(sound) / 2
		}
		n = min(f.Side, most)
	case anyone, leader:
	}
	some := make([]*node, n) // that follow each other in a ring, from one that the seed draws
	for i := range some {
		some[i] = sound[(int(f.Pick%uint64(len(sound)))+i)%len(sound)]
	}
	return some
}

// forks says whether fewer than a quorum go on as a branch.
func (c Config) forks() bool { return c.Trust != p2pdiloco.TrustByzantine }
