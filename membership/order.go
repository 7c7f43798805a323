package membership

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// Orders (slot.Order) are what the members' operators want done about who may be in the run. An order is gossiped and repeated while it
// stands; once a quorum of the members has given the same one, the leader puts the signatures into an access record, which anybody can check
// without having heard any of them. Between the two the peer to be removed is treated as removed already by all who know of the
// quorum: it is not listed, its offers are not taken, and it does not lead.
//
// In a private run a removal also changes the admission secret, so the leader's next secret (ReportKey) has to be on the disks of a
// quorum of the new members before the record is proposed: like an outcome, it is held first (WorkHold) and decided then.

// orders is what is wanted, by whom.
type orders struct {
	own       []slot.Order                 // of this peer's operator; From is not set
	adopted   map[slot.PeerID]adoptedOrder // by whom they are about
	sent      map[slot.PeerID]slot.Order
	sentAt    time.Duration
	held      map[who]map[slot.PeerID]heldOrder // by who gave it and whom it is about: the newest
	ready     []slot.Decision                   // that a quorum wants, in order
	condemned map[slot.PeerID]bool              // that a quorum wants removed
	key       slot.Root                         // the secret that this peer would bring in force as the leader; zero: none
	pauseAt   time.Duration                     // when a draft of an access record was given up
	told      *slot.Root                        // access.newest that the worker was told of
	toldAt    time.Duration
}

type heldOrder struct {
	order slot.Order
	sig   []byte
}

// adoptedOrder is one of a peer that this one follows.
type adoptedOrder struct {
	slot.Order // From is not set
	of         slot.PeerID
}

func newOrders() orders {
	return orders{adopted: map[slot.PeerID]adoptedOrder{}, sent: map[slot.PeerID]slot.Order{}, sentAt: never, held: map[who]map[slot.PeerID]heldOrder{}, pauseAt: never, toldAt: never}
}

// give replaces what this peer's operator wants. What was wanted and is no more is taken back.
func (m *Machine) give(r ReportOrders) {
	before := m.orders.own
	m.orders.own = slices.Clone(r.Orders)
	for _, old := range before {
		if !slices.ContainsFunc(m.wanted(), func(o slot.Order) bool { return o.Peer == old.Peer }) {
			m.takeBack(old)
		}
	}
	m.sendOrders()
}

// takeBack says the opposite of an order, which is none, in the same turn. A rotation cannot be taken back: it harms nobody.
func (m *Machine) takeBack(o slot.Order) {
	back := map[slot.Action]slot.Action{slot.Remove: slot.Readmit, slot.Readmit: slot.Remove}[o.Action]
	if sent, was := m.orders.sent[o.Peer]; was && back != 0 && sent.Action == o.Action && sent.Turn == o.Turn {
		m.sendOrder(slot.Order{Action: back, Peer: o.Peer, Turn: o.Turn})
	}
}

// repeatTakenBack says again what was taken back, for as long as the order could still count where that was not heard.
func (m *Machine) repeatTakenBack() {
	a := &m.chain.access
	for _, p := range slices.Sorted(maps.Keys(m.orders.sent)) {
		switch o := m.orders.sent[p]; {
		case o.Turn != a.turns[p] || m.chain.height() >= o.From+slot.OrderSpan:
			delete(m.orders.sent, p)
		case !a.takes(o.Action, p) && m.elector():
			m.gossip(Order{o}, m.cfg.Self)
		}
	}
}

// wanted is what this peer asks for: its operator's orders, then those of peers that it follows on other matters.
func (m *Machine) wanted() []slot.Order {
	out := slices.Clone(m.orders.own)
	for _, p := range slices.Sorted(maps.Keys(m.orders.adopted)) {
		if len(out) == slot.MaxDecisions { // others keep no more
			break
		}
		if o := m.orders.adopted[p].Order; !slices.ContainsFunc(m.orders.own, func(w slot.Order) bool { return w.Peer == p && w.Turn == o.Turn }) {
			out = append(out, o)
		}
	}
	return out
}

// repeatOrders says again what is wanted and not yet decided: leaders change, and forget, and newcomers have not heard it.
func (m *Machine) repeatOrders() {
	if m.now-m.orders.sentAt >= sayAgainAfter*m.cfg.Timing.Alive {
		m.sendOrders()
		m.repeatTakenBack()
	}
}

func (m *Machine) sendOrders() {
	m.orders.sentAt = m.now
	if !m.elector() || m.chain.ended() {
		return
	}
	for _, o := range m.wanted() {
		if o.Turn == m.chain.access.turns[o.Peer] && m.chain.access.takes(o.Action, o.Peer) {
			m.sendOrder(o)
		}
	}
}

// sendOrder announces an order. It is signed anew before it gets too old to count.
func (m *Machine) sendOrder(o slot.Order) {
	sent, was := m.orders.sent[o.Peer]
	o.From = sent.From
	switch {
	case !was:
		o.From = m.chain.height()
	case sent != o: // it takes the place of what was said before, whichever comes first
		o.From = max(m.chain.height(), sent.From+1)
	case m.chain.height() >= sent.From+slot.OrderSpan/2:
		o.From = m.chain.height()
	}
	m.orders.sent[o.Peer] = o
	m.gossip(Order{o}, m.cfg.Self)
}

// onOrder keeps a member's order. One that says the opposite of what could be decided takes an earlier one back, and is kept in its place: what
// was signed before it may still come by other ways.
func (m *Machine) onOrder(msg Message, o slot.Order) error {
	if err := m.from(msg); err != nil {
		return err
	}
	by, a := who{msg.From, msg.Incarnation}, &m.chain.access
	held := m.orders.held[by]
	before, had := held[o.Peer]
	switch {
	case o.Turn != a.turns[o.Peer] || o.From < m.chain.height() && !o.CountsAt(m.chain.height()+1) || had && o.From < before.order.From:
		return ErrStale
	case o.From > m.chain.height()+slot.OrderSpan || o.Action == slot.Rotate && !m.chain.rules.Private:
		return invalid("an order to %s from height %d", o.Action, o.From)
	case had && before.order == o:
		return nil
	case !a.takes(o.Action, o.Peer) && !had:
		return ErrStale
	case !had && len(held) >= slot.MaxDecisions:
		return invalid("more than %d orders at a time", slot.MaxDecisions)
	case held == nil:
		held = map[slot.PeerID]heldOrder{}
		m.orders.held[by] = held
	}
	held[o.Peer] = heldOrder{o, slices.Clone(msg.Sig)}
	m.countOrders()
	if !had {
		m.tellOrder(msg.From, o)
	}
	m.adopt(msg.From, o)
	return nil
}

// adopt makes the order of a peer that this one follows its own, but for one against itself; what that peer takes back this one does, too.
func (m *Machine) adopt(by slot.PeerID, o slot.Order) {
	all := m.orders.adopted
	had, was := all[o.Peer]
	o.From = 0
	switch {
	case by == m.cfg.Self || o.Peer == m.cfg.Self || !slices.Contains(m.cfg.Follow, by):
	case m.chain.access.takes(o.Action, o.Peer):
		if _, known := all[o.Peer]; known || len(all) < slot.MaxDecisions {
			all[o.Peer] = adoptedOrder{o, by}
		}
		if had.Order != o {
			m.sendOrders()
		}
	case was && had.of == by:
		delete(all, o.Peer)
		m.takeBack(had.Order)
	}
}

// absorb takes in the orders that a leader shows in a draft or proposal, verified: who has the next secret knows who must not get it.
func (m *Machine) absorb(ds []slot.Decision) {
	for _, d := range ds {
		for _, s := range d.Orders {
			e := m.chain.electorate()[slot.Find(m.chain.electorate(), s.Peer)]
			held := m.orders.held[ofMember(e)]
			if held == nil {
				held = map[slot.PeerID]heldOrder{}
				m.orders.held[ofMember(e)] = held
			}
			if h, had := held[d.Peer]; !had || h.order.From < s.From {
				held[d.Peer] = heldOrder{d.Order(s.From), s.Sig}
			}
		}
	}
	if len(ds) > 0 {
		m.countOrders()
	}
}

// countOrders finds out what a quorum of the electors wants, after an order has come, the chain has grown, or somebody may have come or gone.
func (m *Machine) countOrders() {
	o, a := &m.orders, &m.chain.access
	o.own = slices.DeleteFunc(o.own, func(w slot.Order) bool { return w.Turn < a.turns[w.Peer] })
	maps.DeleteFunc(o.adopted, func(p slot.PeerID, w adoptedOrder) bool { return w.Turn != a.turns[p] })
	tally := map[slot.Order][]slot.SignedOrder{}
	for by, held := range o.held {
		if _, elects := findMember(m.chain.electorate(), by.peer, by.inc); !elects {
			delete(o.held, by)
			continue
		}
		for p, h := range held {
			switch {
			case h.order.Turn != a.turns[p] || h.order.From+slot.OrderSpan <= m.chain.height():
				delete(held, p)
			case a.takes(h.order.Action, p) && h.order.CountsAt(m.chain.height()+1):
				k := h.order
				k.From = 0
				tally[k] = append(tally[k], slot.SignedOrder{Peer: by.peer, From: h.order.From, Sig: h.sig})
			}
		}
	}
	o.ready, o.condemned = nil, nil
	for k, signed := range tally {
		if d, ok := m.decisionOf(k, signed); ok {
			o.ready = append(o.ready, d)
		}
	}
	slices.SortFunc(o.ready, slot.Decision.Compare)
	o.ready = m.spareOne(o.ready[:min(len(o.ready), slot.MaxDecisions)])
	for _, d := range o.ready {
		if d.Action == slot.Remove {
			if o.condemned == nil {
				o.condemned = map[slot.PeerID]bool{}
			}
			o.condemned[d.Peer] = true
		}
	}
}

// recountOrders follows who is about: whose removal is spared hangs on that.
func (m *Machine) recountOrders() {
	if len(m.orders.held) > 0 {
		m.countOrders()
	}
}

// spareOne leaves out the removal of the senior where all members are to be removed, or all that are heard and are enough to decide: a run is
// not ended so, and somebody must lead the record.
func (m *Machine) spareOne(ds []slot.Decision) []slot.Decision {
	removes := func(p slot.PeerID) bool {
		return slices.ContainsFunc(ds, func(d slot.Decision) bool { return d.Action == slot.Remove && d.Peer == p })
	}
	members := m.chain.electorate()
	if m.quorumHeard() {
		members = slices.DeleteFunc(slices.Clone(members), func(e slot.Member) bool { return !m.present(e) })
	}
	if len(members) == 0 || slices.ContainsFunc(members, func(e slot.Member) bool { return !removes(e.Peer) }) {
		return ds
	}
	senior := slot.Senior(members).Peer
	return slices.DeleteFunc(ds, func(d slot.Decision) bool { return d.Action == slot.Remove && d.Peer == senior })
}

// forget lets go of what was said on a chain that is given up: heights there mean nothing on another one. What is wanted is said again.
func (o *orders) forget() {
	clear(o.sent)
	clear(o.held)
	o.sentAt = never
}

// decisionOf is the decision that orders make, with no more signatures than it takes; false if they are too few.
func (m *Machine) decisionOf(k slot.Order, signed []slot.SignedOrder) (slot.Decision, bool) {
	electors := m.chain.electorate()
	if 2*len(signed) < len(electors) {
		return slot.Decision{}, false
	}
	senior := slot.Senior(electors).Peer
	slices.SortFunc(signed, func(a, b slot.SignedOrder) int {
		return cmp.Or(btoi(b.Peer == senior)-btoi(a.Peer == senior), cmpPeer(a.Peer, b.Peer))
	})
	n := len(electors)/2 + 1
	if len(electors)%2 == 0 && signed[0].Peer == senior {
		n--
	}
	if len(signed) < n {
		return slot.Decision{}, false
	}
	enough := slices.Clone(signed[:n])
	slices.SortFunc(enough, func(a, b slot.SignedOrder) int { return cmpPeer(a.Peer, b.Peer) })
	return slot.Decision{Action: k.Action, Peer: k.Peer, Turn: k.Turn, Orders: enough}, true
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// barred says whether a peer may not be a member any more: it is removed, or a quorum wants it to be.
func (m *Machine) barred(p slot.PeerID) bool {
	return m.chain.access.removed[p] || m.orders.condemned[p]
}

// accessDue says whether a quorum's orders wait to be recorded.
func (m *Machine) accessDue() bool {
	return len(m.orders.ready) > 0 && m.chain.height() > 0 && !m.chain.ended()
}

// draftsAccess says whether this peer, as the leader, can record them now: it has the next secret where that must change, and the last try is a
// while ago. Whoever is to be removed leaves it to others: it would know the secret.
func (m *Machine) draftsAccess() bool {
	return m.accessDue() && !m.barred(m.cfg.Self) && m.now-m.orders.pauseAt >= 4*m.cfg.Timing.Patience && (!m.renews() || !m.chain.access.keys[m.orders.key])
}

// renews says whether what is ready changes the secret.
func (m *Machine) renews() bool {
	return m.chain.rules.Private && slices.ContainsFunc(m.orders.ready, func(d slot.Decision) bool { return d.Action != slot.Readmit })
}

// accessDraft asks who holds the state, and the next secret.
func (m *Machine) accessDraft() slot.Draft {
	d := slot.Draft{Kind: slot.Access, Decisions: slices.Clone(m.orders.ready)}
	if m.renews() {
		d.Key = m.orders.key
	}
	return d
}

// tellAccess tells the worker who may be in the run, once for each change and again where it failed.
func (m *Machine) tellAccess() {
	o, a := &m.orders, &m.chain.access
	if m.chain.height() == 0 || o.told != nil && *o.told == a.newest || m.now-o.toldAt < 4*m.cfg.Timing.Retry {
		return
	}
	newest := a.newest
	o.told, o.toldAt = &newest, m.now
	m.work(WorkAccess{Key: a.key, From: m.sources()})
}

// accessFailed: the worker could not do it; it is told again.
func (m *Machine) accessFailed(w WorkAccess) {
	if w.Key == m.chain.access.key {
		m.orders.told = nil
	}
}

// tellOrder says what somebody wants, and how many want it by now.
func (m *Machine) tellOrder(by slot.PeerID, o slot.Order) {
	n := 0
	for _, held := range m.orders.held {
		if h, ok := held[o.Peer]; ok && h.order.Action == o.Action {
			n++
		}
	}
	m.event(Event{
		Kind: EventOrdered, Height: m.chain.height(), Slot: m.chain.tip().Slot, Peer: by,
		Detail: fmt.Sprintf("%s, as %d of %d members do by now", wishText(o.Action, o.Peer), n, len(m.chain.electorate())),
	})
}

func wishText(a slot.Action, p slot.PeerID) string {
	if a == slot.Rotate {
		return "wants the admission secret to be changed"
	}
	return fmt.Sprintf("wants to %s %s", a, p)
}

// tellDecisions says what an access record has decided.
func (m *Machine) tellDecisions(e Event, r slot.Record) {
	kinds := map[slot.Action]EventKind{slot.Remove: EventRemoved, slot.Readmit: EventReadmitted}
	for _, d := range r.Decisions {
		if kind, about := kinds[d.Action]; about {
			e.Kind, e.Peer, e.Detail = kind, d.Peer, fmt.Sprintf("ordered by %d of %d members", len(d.Orders), len(m.chain.at(r.Height-1).Members))
			m.event(e)
		}
	}
	if !r.Key.IsZero() {
		e.Kind, e.Peer, e.Detail = EventRotated, "", "the admission secret has changed: tickets from before admit nobody"
		m.event(e)
	}
}
