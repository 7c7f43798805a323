package membership

import (
	"slices"
	"strings"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/chain"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// plant takes a rule away from the honest machines of an explorer's world, from outside: the
// machine under test is the one that is shipped. A rule that looks at a message is taken away by
// changing the message so that the rule finds nothing wrong with it. The zero plant takes none.
type plant struct {
	keep         func(wire.Entry) bool // what a disk keeps; nil: all
	loseOutcomes bool
	unsigned     bool // false signatures of others in the liar's messages are not looked at
	before       func(*explorer, *Machine, wire.Message) wire.Message
	after        func(*Machine, wire.Message, error)
}

// forgets is a disk that loses all entries of a type.
func forgets[E wire.Entry](e wire.Entry) bool { _, ok := e.(E); return !ok }

// inDrafts changes the drafts that a machine gets.
func inDrafts(change func(*explorer, *Machine, *wire.Draft)) func(*explorer, *Machine, wire.Message) wire.Message {
	return func(x *explorer, m *Machine, msg wire.Message) wire.Message {
		if d, ok := msg.Body.(wire.Draft); ok {
			change(x, m, &d)
			msg.Body = d
		}
		return msg
	}
}

// haveTwice gives HAVE twice in a ballot (m7): the machine has forgotten the first when the liar
// shows a second draft.
func haveTwice(_ *explorer, m *Machine, d *wire.Draft) {
	own := m.pledges.open.Have
	if own != nil && own.Ballot == d.Ballot && own.Record.Hash() != d.Hash {
		m.pledges.open.Have, m.open.draft = nil, nil
	}
}

// anyGrounds does not look at the promises of a draft (m4).
func anyGrounds(x *explorer, m *Machine, d *wire.Draft) {
	if m.chain.CheckGrounds(d.Grounds, d.Ballot, d.Record) != nil {
		d.Grounds = wire.Grounds{Promises: x.promisesOfAll(nil)}
	}
}

// locksWithoutQC takes a lock for one on a liar's word (m8).
func locksWithoutQC(x *explorer, m *Machine, d *wire.Draft) {
	if lock := d.Grounds.Highest(); lock != nil && lock.Hash == d.Hash && x.promised(d.Grounds) &&
		m.chain.CheckGrounds(d.Grounds, d.Ballot, d.Record) != nil {
		q := x.qcOfAll(lock.Ballot, d.Record)
		d.Grounds.QC = &q
	}
}

// anyLock takes a draft of any lock that its promises name, also of one that is not the highest
// (m9).
func anyLock(x *explorer, m *Machine, d *wire.Draft) {
	if q := d.Grounds.QC; q != nil && x.promised(d.Grounds) && m.chain.CheckQC(*q, d.Record) == nil {
		lock := q.Lock()
		d.Grounds.Promises = x.promisesOfAll(&lock)
	}
}

// fewStatements drops a member for which f electors have stated that it is lost (m10).
func fewStatements(x *explorer, m *Machine, d *wire.Draft) {
	if s := d.Attached.Statements; len(s) >= x.rules.Liars(len(m.chain.Electorate())) && len(s) > 0 {
		all := s[:0:0]
		for _, e := range m.chain.Electorate() {
			all = append(all, wire.SignedStatement{
				Peer: e.Peer, Incarnation: e.Incarnation, Unheard: s[0].Unheard, Mute: s[0].Mute,
			})
		}
		d.Attached.Statements = all
	}
}

// anyQC does not look at QCs, in proposals and in drafts (m5).
func anyQC(x *explorer, m *Machine, msg wire.Message) wire.Message {
	switch b := msg.Body.(type) {
	case wire.Propose:
		if d := m.open.draft; d != nil && d.Hash == b.Hash && m.chain.CheckQC(*b.QC, d.Record) != nil {
			q := x.qcOfAll(b.Ballot, d.Record)
			msg.Body = wire.Propose{Vote: b.Vote, QC: &q}
		}
	case wire.Draft:
		if b.Grounds.QC != nil {
			locksWithoutQC(x, m, &b)
			msg.Body = b
		}
	}
	return msg
}

// newcomersNotAsked counts a HAVE for each newcomer that a draft lists, whether it gave one or not
// (m19).
func newcomersNotAsked(_ *explorer, m *Machine, msg wire.Message) wire.Message {
	l := m.open.lead
	if l == nil || l.draft == nil {
		return msg
	}
	for _, e := range l.draft.Record.Electors() {
		w := ofMember(e)
		if _, gave := l.haves[w]; !gave && slot.Find(m.chain.Electorate(), e.Peer) < 0 {
			l.haves[w] = wire.SignedHave{Peer: w.peer, Incarnation: w.inc, Ballot: l.ref.Ballot}
		}
	}
	return msg
}

// movedByOne follows any promise of a later ballot (m18).
func movedByOne(m *Machine, msg wire.Message, _ error) {
	if p, ok := msg.Body.(wire.Promise); ok && p.Ballot > m.open.ballot && m.checkElector(msg) == nil {
		m.acceptor.reach(p.Ballot)
		m.settle()
	}
}

// manySeats takes drafts that give two members a seat or more (m14).
func manySeats(m *Machine, msg wire.Message, err error) {
	d, ok := msg.Body.(wire.Draft)
	if !ok || err == nil || !strings.Contains(err.Error(), "seats for both") {
		return
	}
	have := wire.EntryHave{Ref: d.Ref, Drafted: wire.Drafted{Record: d.Record}}
	m.pledges.open.Have = &have
	m.persist(have)
	m.participant.noteDraft(d)
	m.open.draft, m.open.haveSent = &d, false
	m.settle()
}

// promisesOfAll are promises of all electors, that name a lock or none.
func (x *explorer) promisesOfAll(lock *wire.Lock) (ps []wire.Promised) {
	for _, e := range x.liar.electors {
		ps = append(ps, wire.Promised{Peer: e.Peer, Incarnation: e.Incarnation, Lock: lock})
	}
	return ps
}

// qcOfAll is a QC of all whom a record concerns.
func (x *explorer) qcOfAll(ballot uint32, r slot.Record) wire.QC {
	q := wire.QC{Ballot: ballot, Hash: r.Hash()}
	for _, e := range slices.Concat(x.liar.electors, r.Electors()) {
		if !slices.ContainsFunc(q.Haves, of(e.Peer)) {
			q.Haves = append(q.Haves, wire.SignedHave{Peer: e.Peer, Incarnation: e.Incarnation, Ballot: ballot})
		}
	}
	return q
}

// drops adds a record that leaves an honest elector out, with the liar's statement that it is lost.
func (x *explorer) drops() {
	l := x.liar
	members := l.chain.Members()
	i := slices.IndexFunc(members, func(m slot.Member) bool { return m.Peer != x.ids[l.at] })
	r := x.record(slot.Members, slices.Delete(slices.Clone(members), i, i+1))
	s := wire.Statement{
		Position: wire.Position{Height: l.ref.Height, Prev: l.ref.Prev},
		Unheard:  slot.NewBitmap(len(members)), Mute: slot.NewBitmap(len(members)),
	}
	s.Unheard.Set(i)
	said := x.sign(s)
	l.attached[r.Hash()] = wire.Attachments{Statements: []wire.SignedStatement{{
		Peer: said.From, Incarnation: said.Incarnation, Unheard: s.Unheard, Mute: s.Mute, Sig: said.Sig,
	}}}
	l.records = append(l.records, r)
}

// promotes adds a record that gives seats to three strangers at once. All have earned one.
func (x *explorer) promotes() {
	members := x.liar.chain.Members()
	for _, name := range []string{"X", "Y", "Z"} {
		members = insertMember(members, slot.Member{Peer: labID(name), Incarnation: 1})
	}
	r := x.record(slot.Members, members)
	for i, m := range r.Members {
		if m.Since == r.Height {
			r.Members[i].Seat = r.Height
		}
	}
	x.liar.records = append(x.liar.records, r)
}

// forgesOffer adds a step with an offer that an honest elector has not made, and a false signature
// for it.
func (x *explorer) forgesOffer() {
	own := x.offer()
	forged := own.Body.(wire.Offer)
	victim := (x.liar.at + 1) % len(x.ids)
	forged.Peer = x.ids[victim]
	other := wire.Message{From: forged.Peer, Incarnation: x.incs[victim], Body: forged}
	other.Sig = labSign(own.From, slot.SignedBytes(slot.TypeOffer, x.rules.Run, other.From, other.Incarnation,
		forged.Append(nil)))
	x.addStep(own, other)
}

// offer is an offer of the liar.
func (x *explorer) offer() wire.Message {
	s := x.liar.chain.OpenSlot()
	return x.sign(wire.Offer{Offer: slot.Offer{
		Peer: x.ids[x.liar.at], Slot: s, Seq: 1 << 40, Base: s - 1, Weight: 1, Root: slot.Hash([]byte("forged")),
	}})
}

// offers lists what the honest electors have offered, and an offer of the liar.
func (x *explorer) offers(w *world) []wire.Message {
	all, seen := []wire.Message{x.offer()}, map[slot.PeerID]bool{x.ids[x.liar.at]: true}
	w.parcels(func(id int) {
		msg := x.parcels[id].msg
		if _, is := msg.Body.(wire.Offer); is && !seen[msg.From] {
			all, seen[msg.From] = append(all, msg), true
		}
	})
	return all
}

// addStep adds a step of these offers. The liar alone has what it says to be their mean.
func (x *explorer) addStep(offers ...wire.Message) slot.Record {
	return x.addStepOf([]slot.Root{slot.Hash([]byte("junk"))}, offers...)
}

// addStepOf adds a step of these offers, with equal segments that have these outcomes.
func (x *explorer) addStepOf(outcomes []slot.Root, offers ...wire.Message) slot.Record {
	l, c := x.liar, x.liar.chain
	slices.SortFunc(offers, func(a, b wire.Message) int { return cmpPeer(a.From, b.From) })
	r := x.record(slot.Members, c.Members())
	r.Kind, r.Slot, r.Contributions = slot.Step, c.OpenSlot(), nil
	set := slot.NewBitmap(len(offers))
	var proofs []wire.OfferProof
	for i, o := range offers {
		set.Set(i)
		r.Contributions = append(r.Contributions, o.Body.(wire.Offer).Offer)
		proofs = append(proofs, wire.OfferProof{Incarnation: o.Incarnation, Sig: o.Sig})
	}
	size := c.Rules().Elements(c.OpenSlot()) / uint64(len(outcomes))
	r.Segments = nil
	for i, root := range outcomes {
		at := slot.Range{Begin: uint64(i) * size, End: uint64(i+1) * size}
		r.Segments = append(r.Segments, slot.Segment{Range: at, Contributors: set, Root: root})
		l.owned[root] = true
	}
	r.Work = c.WorkAfter(slot.Step, r.Contributions)
	r = c.Settle(r, chain.Turnover{Listed: c.Members()})
	l.proofs[r.Hash()] = proofs
	l.records = append(l.records, r)
	return r
}
