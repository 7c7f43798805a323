package membership

import (
	"cmp"
	"slices"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// View is a copy of what status pages and the node need to know of a machine.
type View struct {
	Founding slot.Root // hash of the record at height 1; zero while there is no chain
	Moves    uint64    // how often records were given up for another branch since the start: what grew from them is void
	Tip      slot.Record

	Synced      bool // a state is held and not known to be wrong
	Diverged    bool
	Applied     uint64 // height of the newest record applied, if Synced
	AppliedSlot uint64
	StateRoot   slot.Root // of the state held

	IsMember bool
	Leaving  bool
	Left     bool
	Paused   bool   // too few members are heard for a quorum
	NoQuorum bool   // the same, or, at a peer that is no member, none of them is heard
	Reason   string // why this peer is paused or no member, or whom its run ended without, in plain words
	Done     bool   // the run is over, and everybody has it or had the time
	Missed   bool   // the run is over, and nobody was heard for long who holds its last state, which is not here
	Members  []MemberView
	Ref      slot.Ref      // the height being decided, and the ballot followed
	Leader   slot.PeerID   // of that ballot
	Plan     *slot.Plan    // the reduction that runs; never changed once made
	Offered  []slot.PeerID // whose offers for the open slot are known
	OwnOffer *slot.Offer   // this peer's standing offer
	Pace     Pace          // what the chain says of the members' speeds
	Parts    []Part        // of the data, in this peer's hands, by slot

	Key     slot.Root     // names a private run's secret in force; zero: the one it was founded with
	Removed []slot.PeerID // may not be members, sorted
	Orders  []OrderView   // that members have given and that are not decided, in order
}

// OrderView is what some members want done about who may be in the run.
type OrderView struct {
	Action slot.Action
	Peer   slot.PeerID   // empty: of a rotation
	By     []slot.PeerID // sorted
	Enough bool          // a quorum: it waits for its record
}

// Part is a part of the data in one member's hands.
type Part struct {
	Slot   uint64 // that the member trains for with it
	Number uint64 // from 0
	Done   uint64 // inner steps of it that were contributed before: the round's are those behind them
}

// Part is the part that this peer was dealt for a slot. A member has one for the open slot and for Rules.Ahead beyond it.
func (v View) Part(s uint64) (part Part, ok bool) {
	for _, p := range v.Parts {
		if p.Slot == s {
			return p, true
		}
	}
	return Part{}, false
}

// MemberView is one member as this peer sees it.
type MemberView struct {
	slot.Member
	Heard       time.Duration // ago
	Lost        bool          // not heard for Timing.Lost
	Leaving     bool
	Contributes bool
	Applied     uint64 // as it last said
	Slot        uint64
	Steps       uint32
	Uplink      slot.Link // as it last said
	Synced      bool
	Evicted     bool // for evidence, or by order; the next record leaves it out
}

// View copies what is visible.
func (m *Machine) View() View {
	s, d := m.state, m.open
	v := View{
		Founding: m.chain.founding(), Moves: m.moves, Tip: m.chain.tip(), NoQuorum: m.fork.without, Reason: m.reason(),
		Synced: s.known && !s.diverged, Diverged: s.diverged, Applied: s.height, AppliedSlot: s.slot, StateRoot: s.root,
		IsMember: m.elector(), Leaving: m.leaving, Left: m.left, Paused: m.paused, Done: m.ending.done, Missed: m.ending.gone,
		Ref: d.at(d.ballot), Leader: d.leader(d.ballot).Peer, Plan: d.plan, Offered: offerers(m.offers()),
		OwnOffer: m.mine, Pace: m.paced(),
	}
	for _, e := range m.chain.electorate() {
		v.Members = append(v.Members, m.viewMember(e))
	}
	v.Parts = m.chain.deal.parts(m.cfg.Self)
	v.Key, v.Removed, v.Orders = m.chain.access.key, m.chain.access.removedPeers(), m.viewOrders()
	return v
}

func (m *Machine) viewOrders() (out []OrderView) {
	by := map[slot.Order][]slot.PeerID{}
	for w, held := range m.orders.held {
		for _, h := range held {
			if !m.chain.access.takes(h.order.Action, h.order.Peer) {
				continue // taken back
			}
			k := slot.Order{Action: h.order.Action, Peer: h.order.Peer}
			by[k] = append(by[k], w.peer)
		}
	}
	for k, ps := range by {
		slices.Sort(ps)
		enough := slices.ContainsFunc(m.orders.ready, func(d slot.Decision) bool { return d.Action == k.Action && d.Peer == k.Peer })
		out = append(out, OrderView{Action: k.Action, Peer: k.Peer, By: ps, Enough: enough})
	}
	slices.SortFunc(out, func(a, b OrderView) int { return cmp.Or(cmp.Compare(a.Action, b.Action), cmp.Compare(a.Peer, b.Peer)) })
	return out
}

func (m *Machine) viewMember(e slot.Member) MemberView {
	v := MemberView{Member: e, Lost: !m.around(ofMember(e)), Evicted: m.unwelcome(ofMember(e))}
	if ofMember(e) == m.presence.self {
		s := m.state
		v.Contributes, v.Applied, v.Slot, v.Steps, v.Synced = m.contributes, s.height, s.slot, m.steps, s.known
		v.Uplink = slot.LinkOf(m.speeds.Uplink)
		v.Leaving = m.leaving
		return v
	}
	if a := m.presence.known[ofMember(e)]; a != nil {
		v.Heard, v.Leaving = m.now-a.heard, a.leaving
		if a.alive != nil {
			v.Contributes, v.Applied, v.Slot = a.alive.Contributes, a.alive.Applied, a.alive.Slot
			v.Steps, v.Synced, v.Uplink = a.alive.Steps, a.alive.Synced, a.alive.Uplink
		}
	}
	return v
}
