package membership

import (
	"cmp"
	"slices"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// A ring is broken for all as soon as it is broken between two neighbours, and nobody else can see where. So the word of one peer moves
// the leader, and what that can cost is bounded:
//
//   - it is heard of its neighbours only, in the round that runs: what was said of another circle is settled, or said again;
//   - it costs one of the two, the one who says it or the one it names. Who names both its neighbours goes itself;
//   - that once a ballot. Where the one who was left out is still heard, the next such word ends the ring: the slot is reduced anew in a
//     rotation, by all of the group, where nobody's word alone moves anything;
//   - that somebody sent bad values or bytes keeps nobody out of other groups: a partial result is not its sender's alone.
//
// One that says it is alive and passes nothing on holds up all and is seen by nobody. So a ring that does not get on, or takes far too
// long, ends too.

// ringRest is for how many slots after one whose ring was given up leaders take no ring.
const ringRest = 16

// inRing says whether a report is about the way between two neighbours: not about its sender, nor about an outcome.
func (r report) inRing() bool { return r.by != r.of && r.reason != LostOutcome }

// checkRing refuses words about a ring that nobody could say who is honest, or that are late.
func checkRing(p slot.Plan, r report, round slot.Root) error {
	switch {
	case len(p.Ring) == 0 || !r.inRing():
		return nil
	case round != p.Round():
		return ErrStale
	case !p.Beside(p.Place(r.by), p.Place(r.of)):
		return invalid("a report about a peer that is no neighbour in the ring")
	}
	return nil
}

// ringWords divides the reports on a plan into those about ways in its ring, and all others.
func ringWords(p slot.Plan, reports []report) (ring, others []report) {
	for _, r := range reports {
		if len(p.Ring) > 0 && r.inRing() {
			ring = append(ring, r)
		} else {
			others = append(others, r)
		}
	}
	return ring, others
}

// mendRing goes on without one of two neighbours that cannot work together, or without a ring: this peer's own word counts at once,
// another's after a Beat, when the other side had time to say its own.
func (m *Machine) mendRing(words []report) bool {
	l := m.open.lead
	ripe := func(r report) bool { return r.by == m.cfg.Self || m.now-r.at >= m.cfg.Timing.Beat }
	if !slices.ContainsFunc(words, ripe) {
		return false
	}
	if slices.ContainsFunc(l.parted, m.heardOf) {
		m.giveUpRing(*l.plan)
		return true
	}
	out := m.unfit(words)
	l.parted = append(l.parted, out)
	m.leaveOut([]slot.PeerID{out})
	return true
}

// heardOf says whether a member is around.
func (m *Machine) heardOf(p slot.PeerID) bool {
	i := slot.Find(m.chain.electorate(), p)
	return i >= 0 && m.around(ofMember(m.chain.electorate()[i]))
}

// unfit picks who leaves a ring: one that names both its neighbours; else one that both its neighbours name; else, of the first two that
// cannot work together, who is reached by fewer members, then not the leader, then who is named, then the higher ID.
func (m *Machine) unfit(words []report) slot.PeerID {
	names, named := map[slot.PeerID][]slot.PeerID{}, map[slot.PeerID][]slot.PeerID{}
	for _, r := range words {
		names[r.by] = union(names[r.by], []slot.PeerID{r.of})
		named[r.of] = union(named[r.of], []slot.PeerID{r.by})
	}
	for _, words := range []map[slot.PeerID][]slot.PeerID{names, named} {
		if p := worstOf(words); len(words[p]) > 1 {
			return p
		}
	}
	own := func(p slot.PeerID) int { return map[bool]int{true: 1}[p == m.cfg.Self] }
	return slices.MaxFunc([]slot.PeerID{words[0].by, words[0].of}, func(a, b slot.PeerID) int {
		return cmp.Or(
			cmp.Compare(m.reachedBy(b), m.reachedBy(a)), cmp.Compare(own(b), own(a)),
			cmp.Compare(len(named[a]), len(named[b])), cmpPeer(a, b))
	})
}

// worstOf is the peer with the most words, the highest ID of equal ones.
func worstOf(words map[slot.PeerID][]slot.PeerID) (worst slot.PeerID) {
	for p, w := range words {
		if cmp.Or(cmp.Compare(len(w), len(words[worst])), cmpPeer(p, worst)) > 0 {
			worst = p
		}
	}
	return worst
}

// giveUpRing opens the slot's reduction anew as a rotation, with those who were left out for connections. A rotation may always be
// (allreduce.Ring).
func (m *Machine) giveUpRing(p slot.Plan) {
	l := m.open.lead
	m.restRings(p.Slot)
	l.givenUp = p.Group()
	l.forgive()
	m.startPlan()
}

// restRings keeps this peer, where it leads, from rings for a while, the slot included.
func (m *Machine) restRings(s uint64) { m.ringsFrom = s + 1 + ringRest }

// noticeRing follows what rings do: each circle has its time to get on, and one that a leader gave up is one less to be tried.
func (m *Machine) noticeRing(before *slot.Plan, p slot.Plan) {
	if before == nil || before.Round() != p.Round() {
		m.open.stirred = m.now
	}
	if before != nil && before.Slot == p.Slot && len(before.Ring) > 0 && len(p.Ring) == 0 {
		m.restRings(p.Slot)
	}
}

// ringHangs says whether a ring gets nowhere, whoever led meanwhile: no byte has come to this peer, which is in it, for as long as owners
// may be silent in a rotation; or it takes far longer than such reductions do, for bytes may drip.
func (m *Machine) ringHangs() bool {
	l, group := m.open.lead, m.open.testimony
	at := l.plan.Place(m.cfg.Self)
	if len(l.plan.Ring) == 0 || group.group != l.group {
		return false
	}
	least := silences * m.cfg.Timing.Patience
	quiet := at >= 0 && !l.plan.Gone.Has(at) && m.now-max(group.since, m.open.stirred) >= least
	return quiet || m.now-group.since >= least+drawnOut*min(cmp.Or(m.usual, least), least)
}

// noteUsual remembers how long reductions take, from the plan to the record. It grows slowly: who draws them out does not gain by it.
func (m *Machine) noteUsual(took time.Duration) {
	if m.usual == 0 {
		m.usual = took
	}
	m.usual = min(took, m.usual+m.usual/8)
}
