package membership

import (
	"cmp"
	"slices"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// report is one peer's word that another of its group failed it; or that it cannot take part itself.
type report struct {
	by, of slot.PeerID
	reason LostReason
	at     time.Duration
}

// onLost gathers what the plan's peers say about each other. Nobody's word alone is proof, and a connection that failed may be
// either side's fault. It need not be weighed at once, either: owners go on without a contributor by themselves.
func (m *Machine) onLost(msg Message, lost Lost) error {
	if err := m.from(msg); err != nil {
		return err
	}
	l := m.open.lead
	if l == nil || l.plan == nil || lost.Ref != l.ref || lost.Group != l.group {
		return ErrStale
	}
	of, by := l.plan.Place(lost.Peer), l.plan.Place(msg.From)
	switch {
	case of < 0 || by < 0:
		return invalid("a report about or by a peer that is not in the plan")
	case l.plan.Gone.Has(of) || l.plan.Gone.Has(by):
		return nil // settled
	}
	if lost.Reason < LostConnection || lost.Reason > LostOutcome {
		return invalid("a report for reason %d", lost.Reason) // and so the reports of one peer are bounded
	}
	r := report{msg.From, lost.Peer, lost.Reason, m.now}
	if err := checkRing(*l.plan, r, lost.Round); err != nil {
		return err
	}
	m.noteReport(r)
	return nil
}

// noteReport keeps each report once.
func (m *Machine) noteReport(r report) {
	l := m.open.lead
	again := func(o report) bool { return o.by == r.by && o.of == r.of && o.reason == r.reason }
	if !slices.ContainsFunc(l.reports, again) {
		l.reports = append(l.reports, r)
	}
}

// reviseIfLost gives the pieces of those who are gone, by some reports or because they are heard no more, to others.
func (m *Machine) reviseIfLost(reports []report) bool {
	l := m.open.lead
	ring, reports := ringWords(*l.plan, reports)
	out := m.fallen(*l.plan, reports)
	if len(out) == 0 {
		return m.mendRing(ring)
	}
	for _, p := range out {
		bad := func(r report) bool {
			return r.of == p && (r.reason == LostBadValue || r.reason == LostBadBytes) && !slices.Contains(out, r.by) && len(l.plan.Ring) == 0
		}
		if slices.ContainsFunc(l.reports, bad) {
			l.banned[p] = struct{}{}
		}
	}
	m.leaveOut(out)
	return true
}

// fallen says who of a plan must be taken for gone, one after the other: the word of who is gone does not count any more.
func (m *Machine) fallen(p slot.Plan, reports []report) (out []slot.PeerID) {
	for {
		p = withGone(p, out)
		worst := m.worst(p, reports)
		if worst == "" {
			return out
		}
		out = append(out, worst)
	}
}

// worst picks one of the living who must go, if anybody must: first who is not heard or says so itself; then, of those convicted,
// who is reached by fewer members, then anybody but this peer, then who is in more reports, then the higher ID.
func (m *Machine) worst(p slot.Plan, reports []report) slot.PeerID {
	alive := livingOf(p)
	said := m.weigh(alive, reports)
	for _, peer := range alive {
		e := slot.Find(m.chain.electorate(), peer)
		if e < 0 || !m.around(ofMember(m.chain.electorate()[e])) || slices.Contains(said.against[peer], peer) {
			return peer
		}
	}
	if len(said.against) == 0 && len(m.open.lead.narrow) == 0 {
		return ""
	}
	parted := len(alive) == 2 && said.parted
	out := slices.DeleteFunc(alive, func(q slot.PeerID) bool {
		return !parted && !m.convicted(p, q, said)
	})
	if len(out) == 0 {
		return ""
	}
	own := func(p slot.PeerID) int { return map[bool]int{true: 1}[p == m.cfg.Self] }
	return slices.MaxFunc(out, func(a, b slot.PeerID) int {
		return cmp.Or(
			cmp.Compare(m.reachedBy(b), m.reachedBy(a)), cmp.Compare(own(b), own(a)),
			cmp.Compare(len(said.against[a]), len(said.against[b])), cmpPeer(a, b))
	})
}

// hearing is what the living of a group say of each other. The leader holds one with every message, so it is one pass.
type hearing struct {
	against map[slot.PeerID][]slot.PeerID // who accuses a peer
	old     map[slot.PeerID][]slot.PeerID // whom a peer has accused for Timing.Lost
	parted  bool                          // were they two, they could not work together
}

// weigh holds the hearing. Of the last two of a group one must go, and be it on one word: this peer's own counts at once, another's
// once the other side had time to say its own.
func (m *Machine) weigh(alive []slot.PeerID, reports []report) hearing {
	said := hearing{against: map[slot.PeerID][]slot.PeerID{}, old: map[slot.PeerID][]slot.PeerID{}}
	in := make(map[slot.PeerID]bool, len(alive))
	for _, peer := range alive {
		in[peer] = true
	}
	for _, r := range reports {
		if !in[r.by] || !in[r.of] {
			continue
		}
		said.against[r.of] = append(said.against[r.of], r.by)
		if m.now-r.at >= m.cfg.Timing.Lost {
			said.old[r.by] = append(said.old[r.by], r.of)
		}
		said.parted = said.parted || r.by == m.cfg.Self || m.now-r.at >= m.cfg.Timing.Beat
	}
	for peer, by := range said.against {
		said.against[peer] = union(by)
	}
	for peer, of := range said.old {
		said.old[peer] = union(of)
	}
	return said
}

// convicted says whether a peer must go, of a group of three or more:
//   - more than half of the others accuse it. One accuser moves nothing: a liar cannot have honest peers removed one by one, and
//     two peers that cannot connect lose their part in each other's pieces and nothing else;
//   - it has accused so many, for so long, that what it can still reduce would have too few contributors, or it states such
//     ranges: it waits for word that the others are gone, and they are heard.
func (m *Machine) convicted(p slot.Plan, peer slot.PeerID, said hearing) bool {
	if p.Living() < 3 {
		return false
	}
	since, narrow := m.open.lead.narrow[peer]
	return 2*len(said.against[peer]) > p.Living()-1 ||
		!p.Wide(p.Living()-len(said.old[peer]), m.chain.rules.MinPeers) ||
		narrow && m.now-since >= m.cfg.Timing.Lost
}

// silences is for how many Timing.Patience nothing may get on before owners are taken for silent: longer than an engine takes to
// be sure of a peer that makes no progress, for on slow links frames are far apart; and less than the patience with ballot 3.
const silences = 6

// drawnOut is how many times as long as all others together an owner may take. A link that is slower by as much is honest; who drips
// bytes to everybody is let go then. It is more than what an owner gives its slowest contributor, which it may be waiting for.
const drawnOut = 40

// silent lists the owners that owe statements when nothing gets on, or when they alone have kept the others waiting for too long: those
// of a half at most, for if most owe them the reduction itself is held up. Their peers may have all their bytes and no reason to
// complain, and the slot would wait for a hung or hostile owner for ever. Once a ballot, so that slow links do not have pieces moved in
// turns. A leader that owes one itself is deposed. In a ring who owes statements may wait for anybody: see ringHangs.
func (m *Machine) silent() []slot.PeerID {
	l, group := m.open.lead, m.open.testimony
	hangs := m.now-l.stirred >= silences*m.cfg.Timing.Patience
	drags := group.group == l.group && m.now-l.owingAt >= silences*m.cfg.Timing.Patience+drawnOut*(l.owingAt-group.since)
	if l.hushed || len(l.plan.Ring) > 0 || !hangs && !drags || 2*len(l.owing) > l.plan.Living() || slices.Contains(l.owing, m.cfg.Self) {
		return nil
	}
	return l.owing
}

// noteOwing keeps who owes statements, and since when.
func (m *Machine) noteOwing() {
	l := m.open.lead
	var owing []slot.PeerID
	for _, piece := range l.plan.Pieces {
		if _, ok := l.stated(piece.Range); !ok {
			owing = append(owing, piece.Owner)
		}
	}
	if owing = union(owing); !slices.Equal(owing, l.owing) {
		l.owing, l.owingAt = owing, m.now
	}
}

// reachedBy counts the members, this one included, that say they have a connection to p.
func (m *Machine) reachedBy(p slot.PeerID) (n int) {
	if m.presence.connected[p] || p == m.cfg.Self {
		n++
	}
	for _, e := range m.chain.electorate() {
		if a := m.presence.known[ofMember(e)]; a != nil && a.alive != nil && slices.Contains(a.alive.Reaches, p) {
			n++
		}
	}
	return n
}

// leaveOut revises the plan without some peers. They stay members, and what they contributed to stays so.
func (m *Machine) leaveOut(out []slot.PeerID) {
	l := m.open.lead
	for _, p := range out {
		l.excluded[p] = l.plan.Offers[l.plan.Place(p)].Seq
		detail := "failed in the reduction"
		if _, bad := l.banned[p]; bad {
			detail = sentBad
		}
		m.event(Event{Kind: EventSuspected, Height: l.ref.Height, Slot: l.plan.Slot, Ballot: l.ref.Ballot, Peer: p, Detail: detail})
	}
	// What they said, and what was said of them, is settled: nobody who is gone comes back into the group. So is what was said of the
	// circle that ends.
	_, l.reports = ringWords(*l.plan, l.reports)
	l.reports = slices.DeleteFunc(l.reports, func(r report) bool { return slices.Contains(out, r.by) || slices.Contains(out, r.of) })
	m.issue(withGone(*l.plan, out))
}

func cmpPeer(a, b slot.PeerID) int { return cmp.Compare(a, b) }
