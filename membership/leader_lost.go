package membership

import (
	"cmp"
	"slices"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// report is one peer's word that another failed it in the running plan.
type report struct {
	by, of slot.PeerID
	bad    bool // for what it sent
}

// onLost gathers what the plan's peers say about each other. Nobody's word alone is proof, and a connection that failed may be
// either side's fault: the reports of one beat are weighed together. What a peer says about itself counts at once.
func (m *Machine) onLost(msg Message, lost Lost) error {
	if err := m.from(msg); err != nil {
		return err
	}
	l := m.open.lead
	if l == nil || l.plan == nil || lost.Ref != l.ref || lost.Revision != l.plan.Revision {
		return ErrStale
	}
	in := func(p slot.PeerID) bool {
		return slices.ContainsFunc(l.plan.Offers, func(o slot.Offer) bool { return o.Peer == p })
	}
	if !in(lost.Peer) || !in(msg.From) {
		return invalid("a report about or by a peer that is not in the plan")
	}
	if lost.Peer == msg.From {
		m.leaveOut([]slot.PeerID{lost.Peer}, "cannot take part")
		return nil
	}
	if r := (report{msg.From, lost.Peer, lost.Reason != LostConnection}); !slices.Contains(l.reports, r) {
		l.reports = append(l.reports, r)
	}
	if l.settleAt == never {
		l.settleAt = m.now + m.cfg.Timing.Beat
	}
	return nil
}

// reviseIfLost acts on the reports once they had time to come in, and on members of the plan that are not heard any more.
func (m *Machine) reviseIfLost() bool {
	l := m.open.lead
	var out []slot.PeerID
	if l.settleAt != never && m.now >= l.settleAt {
		out = m.cover(l.reports)
		for _, r := range l.reports {
			if r.bad && slices.Contains(out, r.of) && !slices.Contains(out, r.by) {
				l.banned[r.of] = struct{}{}
			}
		}
	}
	for _, o := range l.plan.Offers {
		i := slot.Find(m.chain.electorate(), o.Peer)
		if !m.around(ofMember(m.chain.electorate()[i])) && !slices.Contains(out, o.Peer) {
			out = append(out, o.Peer)
		}
	}
	if len(out) == 0 {
		return false
	}
	m.leaveOut(out, "failed in the reduction")
	return true
}

// cover picks few peers so that every report has one side picked: the one in most reports first; then the one that fewer
// members reach; then the accused rather than the accuser; then the higher ID.
func (m *Machine) cover(reports []report) (out []slot.PeerID) {
	reports = slices.Clone(reports)
	for len(reports) > 0 {
		var sides []slot.PeerID
		degree, accused := map[slot.PeerID]int{}, map[slot.PeerID]int{}
		for _, r := range reports {
			sides = append(sides, r.by, r.of)
			degree[r.by]++
			degree[r.of]++
			accused[r.of] = 1
		}
		worst := slices.MaxFunc(union(sides), func(a, b slot.PeerID) int {
			return cmp.Or(
				cmp.Compare(degree[a], degree[b]), cmp.Compare(m.reachedBy(b), m.reachedBy(a)),
				cmp.Compare(accused[a], accused[b]), cmpPeer(a, b))
		})
		out = append(out, worst)
		reports = slices.DeleteFunc(reports, func(r report) bool { return r.by == worst || r.of == worst })
	}
	return out
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

// leaveOut revises the plan without some peers. They stay members, and their contributions stay theirs.
func (m *Machine) leaveOut(out []slot.PeerID, why string) {
	l := m.open.lead
	for _, p := range out {
		for _, o := range l.plan.Offers {
			if o.Peer == p {
				l.excluded[p] = o.Seq
			}
		}
		detail := why
		if _, bad := l.banned[p]; bad {
			detail = "sent what may not be used"
		}
		m.event(Event{Kind: EventSuspected, Height: l.ref.Height, Slot: l.plan.Slot, Ballot: l.ref.Ballot, Peer: p, Detail: detail})
	}
	m.revise(l.eligible(l.plan.Offers))
}

func cmpPeer(a, b slot.PeerID) int { return cmp.Compare(a, b) }
