package membership

import (
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/chain"
)

// quorum keeps whether the members that are heard could decide the open height.
type quorum struct {
	*facts
	*effects
	presence *presence
	evidence *evidence
	paused   bool
}

// present says whether a member is around, and on this branch. A member that is to be removed votes
// until a record says so: where motions cross, it takes such votes to carry them out.
func (q *quorum) present(e slot.Member) bool {
	a := q.presence.known[ofMember(e)]
	return q.presence.around(ofMember(e)) && (a == nil || q.presence.along(a)) && !q.evidence.evicted(ofMember(e))
}

// heard says whether the members that are heard could decide the open height.
func (q *quorum) heard() bool {
	return q.cfg.Rules.Quorum(q.chain.Electorate(), q.present)
}

// missingVotes returns how many of the electors that are missing must come back, whichever they
// are, until the others and they can decide.
func (q *quorum) missingVotes() int {
	electors := q.chain.Electorate()
	present := chain.CountMembers(electors, q.present)
	if n := len(electors); q.cfg.Rules.HalfDecides(n) && q.present(slot.Senior(electors)) {
		return max(0, n/2-present)
	}
	return max(0, q.cfg.Rules.Votes(len(electors))-present)
}

// beyond says whether more electors have contradicted themselves than a quorum can do without,
// where members may lie: then none can come back.
func (q *quorum) beyond() bool {
	electors := q.chain.Electorate()
	evicted := chain.CountMembers(electors, func(e slot.Member) bool { return q.evidence.evicted(ofMember(e)) })
	return q.chain.MajorityForks() && len(electors)-evicted < q.cfg.Rules.Votes(len(electors))
}

// watch reports when too few members are heard to decide anything, and when that is over.
func (q *quorum) watch() {
	members := q.chain.Members()
	quorum := !q.member() || q.heard()
	if quorum != q.paused {
		return
	}
	q.paused = !quorum
	e := Event{Kind: EventResumed, Height: q.chain.Height(), Slot: q.chain.Tip().Slot, Members: peersOf(members)}
	if q.paused {
		e.Kind, e.Detail = EventPaused, "too few members are heard for a quorum; nothing is decided until more come "+
			"back"
	}
	q.event(e)
}
