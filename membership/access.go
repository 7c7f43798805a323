package membership

import (
	"slices"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// access is what the records of a chain say about who may be a member: a pure function of them, as everything in chain is.
type access struct {
	ever    map[slot.PeerID]bool   // were members at some time
	removed map[slot.PeerID]bool   // may not be, since a decision
	turns   map[slot.PeerID]uint64 // decisions about each; of rotations, under no name
	key     slot.Root              // of the secret in force; zero: the one that the run was founded with
	keys    map[slot.Root]bool     // all that ever were
	newest  slot.Root              // hash of the newest access record; zero while there is none
}

func newAccess() access {
	return access{
		ever: map[slot.PeerID]bool{}, removed: map[slot.PeerID]bool{}, turns: map[slot.PeerID]uint64{}, keys: map[slot.Root]bool{{}: true},
	}
}

// follow takes in the next record.
func (a *access) follow(r slot.Record, hash slot.Root) {
	for _, e := range r.Members {
		a.ever[e.Peer] = true
	}
	if r.Kind != slot.Access {
		return
	}
	a.newest = hash
	for _, d := range r.Decisions {
		switch d.Action {
		case slot.Remove:
			a.removed[d.Peer] = true
		case slot.Readmit:
			delete(a.removed, d.Peer)
		case slot.Rotate: // its turn goes by the key
			continue
		}
		a.turns[d.Peer]++
	}
	if !r.Key.IsZero() {
		a.key = r.Key
		a.keys[r.Key] = true
		a.turns[""]++
	}
}

// takes says whether an action can be decided about a peer as things stand.
func (a *access) takes(action slot.Action, p slot.PeerID) bool {
	switch action {
	case slot.Remove:
		return !a.removed[p]
	case slot.Readmit:
		return a.removed[p]
	case slot.Rotate:
		return true
	}
	return false
}

// barredBy says whether a peer may not be listed by a record, by what was decided before or is by itself.
func (a *access) barredBy(r slot.Record, p slot.PeerID) bool {
	barred := a.removed[p]
	for _, d := range r.Decisions {
		if d.Peer == p {
			barred = d.Action == slot.Remove
		}
	}
	return barred
}

// checkAccess enforces what an access record must look like. Whether its orders were signed is verifyOrders's to say: it costs more.
func (c *chain) checkAccess(r slot.Record) error {
	if n := len(r.Decisions); n == 0 || n > slot.MaxDecisions || c.ended() {
		return invalid("an access record with %d decisions", n)
	}
	renew := false
	for i, d := range r.Decisions {
		if i > 0 && r.Decisions[i-1].Compare(d) >= 0 {
			return invalid("decisions are not sorted")
		}
		if err := c.checkDecision(d, r.Height); err != nil {
			return err
		}
		renew = renew || d.Action != slot.Readmit
	}
	switch renew = renew && c.rules.Private; {
	case renew && c.access.keys[r.Key]:
		return invalid("an access record that gives the run no new secret")
	case !renew && !r.Key.IsZero():
		return invalid("an access record with a secret that nobody asked for")
	}
	return nil
}

// checkDecision: it can be taken, its turn is now, and a quorum of the members has ordered it.
func (c *chain) checkDecision(d slot.Decision, height uint64) error {
	switch {
	case (d.Action == slot.Rotate) != (d.Peer == "") || d.Action == slot.Rotate && !c.rules.Private || !c.access.takes(d.Action, d.Peer):
		return invalid("a decision to %s peer %q", d.Action, d.Peer.Short())
	case d.Turn != c.access.turns[d.Peer]:
		return invalid("a decision by orders of turn %d in turn %d", d.Turn, c.access.turns[d.Peer])
	}
	if n, most := len(d.Orders), len(c.electorate())/2+1; n > most { // a record stays small enough to be sent
		return invalid("a decision with %d orders, where %d do", n, most)
	}
	ordered := map[slot.PeerID]bool{}
	for i, o := range d.Orders {
		if i > 0 && d.Orders[i-1].Peer >= o.Peer || slot.Find(c.electorate(), o.Peer) < 0 || !d.Order(o.From).CountsAt(height) {
			return invalid("a decision with an order of %s that does not count", o.Peer.Short())
		}
		ordered[o.Peer] = true
	}
	if !slot.Quorum(c.electorate(), func(e slot.Member) bool { return ordered[e.Peer] }) {
		return invalid("%d of %d members ordered to %s %s: too few", len(ordered), len(c.electorate()), d.Action, d.Peer.Short())
	}
	return nil
}

// verifyOrders says whether the orders in a record, if there are any, were signed by those whose they are said to be. check comes first.
func (c *chain) verifyOrders(r slot.Record, verify slot.Verifier) error {
	for _, d := range r.Decisions {
		for _, o := range d.Orders {
			by := c.electorate()[slot.Find(c.electorate(), o.Peer)]
			data := slot.SignedBytes(slot.TypeOrder, c.rules.Run, by.Peer, by.Incarnation, d.Order(o.From).Append(nil))
			if !verify(o.Peer, data, o.Sig) {
				return invalid("an order of %s with a wrong signature", o.Peer.Short())
			}
		}
	}
	return nil
}

// checkRecord is chain.check with the signatures inside the record. Those of one record are verified once.
func (m *Machine) checkRecord(r slot.Record) error {
	if err := m.chain.check(r); err != nil || len(r.Decisions) == 0 {
		return err
	}
	hash := r.Hash()
	if m.open.verified == hash {
		return nil
	}
	if err := m.chain.verifyOrders(r, m.cfg.Verify); err != nil {
		return err
	}
	m.open.verified = hash
	return nil
}

// checkDraftAccess takes in the decisions of a draft, if it has any. Nobody fetches a secret that its leader would know and must not.
func (m *Machine) checkDraftAccess(leader slot.PeerID, d slot.Draft) error {
	if d.Kind != slot.Access {
		return nil
	}
	r := slot.Record{Height: d.Height, Prev: d.Prev, Kind: d.Kind, Slot: d.Slot, Key: d.Key, Decisions: d.Decisions}
	switch {
	case m.chain.access.barredBy(r, leader):
		return invalid("a draft that removes its leader")
	case m.open.verified == r.Hash():
		return nil
	}
	if err := m.chain.checkAccess(r); err != nil {
		return err
	}
	if err := m.chain.verifyOrders(r, m.cfg.Verify); err != nil {
		return err
	}
	m.open.verified = r.Hash()
	m.absorb(d.Decisions)
	return nil
}

// Standing is what the chain says of one peer.
type Standing struct {
	Ever    bool   // it was a member at some time
	Removed bool   // it may not be one, since a record said so
	Barred  bool   // the same, or a quorum has ordered it and its record is on the way
	Turn    uint64 // of orders about it that can be given now: see slot.Order
}

// Standing of a peer; of no name: the turn of rotations.
func (m *Machine) Standing(p slot.PeerID) Standing {
	a := &m.chain.access
	return Standing{Ever: a.ever[p], Removed: a.removed[p], Barred: m.barred(p), Turn: a.turns[p]}
}

// removedPeers lists who may not be a member, sorted.
func (a *access) removedPeers() (ps []slot.PeerID) {
	for p := range a.removed {
		ps = append(ps, p)
	}
	slices.Sort(ps)
	return ps
}
