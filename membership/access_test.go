package membership

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// signedBy is the decision that members of the chain make, each with an order from the tip.
func signedBy(m *Machine, action slot.Action, about string, names string) slot.Decision {
	d := slot.Decision{Action: action}
	if about != "" {
		d.Peer = labID(about)
	}
	d.Turn = m.Standing(d.Peer).Turn
	for _, n := range names {
		by := m.chain.electorate()[slot.Find(m.chain.electorate(), labID(string(n)))]
		from := m.chain.height()
		sig := labSign(by.Peer, slot.SignedBytes(slot.TypeOrder, m.chain.rules.Run, by.Peer, by.Incarnation, d.Order(from).Append(nil)))
		d.Orders = append(d.Orders, slot.SignedOrder{Peer: by.Peer, From: from, Sig: sig})
	}
	return d
}

// accessRecord follows the tip with decisions and those of the old members who stay.
func accessRecord(m *Machine, key slot.Root, ds ...slot.Decision) slot.Record {
	c := m.chain
	r := slot.Record{
		Run: c.rules.Run, Height: c.height() + 1, Kind: slot.Access, Prev: c.tipHash(), Slot: c.tip().Slot, StateRoot: m.state.root, Work: c.tip().Work,
		Key: key, Decisions: ds,
	}
	for _, e := range c.electorate() {
		if !c.access.barredBy(r, e.Peer) {
			r.Members = append(r.Members, e)
		}
	}
	return r
}

func TestCheckAccessRecord(t *testing.T) {
	m := labOf(t, "ABCD").peer("A").m
	m.chain.rules.Private = true
	key := slot.Hash([]byte("next"))
	sound := func() slot.Record { return accessRecord(m, key, signedBy(m, slot.Remove, "D", "ABC")) }
	if err := m.checkRecord(sound()); err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func(*slot.Record){
		"no decisions":                func(r *slot.Record) { r.Decisions = nil },
		"of another kind":             func(r *slot.Record) { r.Kind = slot.Members },
		"the removed is a member":     func(r *slot.Record) { r.Members = m.chain.electorate() },
		"two of four without senior":  func(r *slot.Record) { r.Decisions = []slot.Decision{signedBy(m, slot.Remove, "D", "BC")} },
		"more orders than it takes":   func(r *slot.Record) { r.Decisions = []slot.Decision{signedBy(m, slot.Remove, "D", "ABCD")} },
		"signed twice by one":         func(r *slot.Record) { o := &r.Decisions[0].Orders; *o = []slot.SignedOrder{(*o)[1], (*o)[1], (*o)[2]} },
		"by a stranger":               func(r *slot.Record) { r.Decisions[0].Orders[2].Peer = labID("E") },
		"a forged order":              func(r *slot.Record) { r.Decisions[0].Orders[1].Sig = []byte("B agrees") },
		"orders about somebody else":  func(r *slot.Record) { r.Decisions[0].Peer = labID("E"); r.Members = m.chain.electorate() },
		"an order for another turn":   func(r *slot.Record) { r.Decisions[0].Turn = 1 },
		"an order of tomorrow":        func(r *slot.Record) { r.Decisions[0].Orders[0].From = r.Height },
		"readmits who is not removed": func(r *slot.Record) { r.Decisions[0] = signedBy(m, slot.Readmit, "D", "ABC") },
		"no new secret":               func(r *slot.Record) { r.Key = slot.Root{} },
		"decisions unsorted": func(r *slot.Record) {
			r.Decisions = []slot.Decision{signedBy(m, slot.Rotate, "", "ABC"), signedBy(m, slot.Remove, "D", "ABC")}
		},
		"with an outcome": func(r *slot.Record) { r.Segments = stepRecord(m, "AB").Segments },
		"another slot":    func(r *slot.Record) { r.Slot++ },
	} {
		r := sound()
		r.Members, r.Decisions[0].Orders = slices.Clone(r.Members), slices.Clone(r.Decisions[0].Orders)
		spoil(&r)
		if err := m.checkRecord(r); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	m.chain.rules.Private = false
	for name, r := range map[string]slot.Record{
		"a secret for an open run": sound(),
		"a rotation of no secret":  accessRecord(m, slot.Root{}, signedBy(m, slot.Rotate, "", "ABC")),
	} {
		if err := m.checkRecord(r); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Whoever is removed is nobody to any later record, whatever its kind; the same orders remove nobody twice; no secret comes back.
func TestAfterRemoval(t *testing.T) {
	m := labOf(t, "ABCD").peer("A").m
	m.chain.rules.Private = true
	key := slot.Hash([]byte("next"))
	before := m.chain.electorate()
	removal := accessRecord(m, key, signedBy(m, slot.Remove, "D", "ABC"))
	contribution := stepRecord(m, "ABD")
	m.chain.push(Commit{Record: removal})

	step := stepRecord(m, "AB")
	step.Members = before
	if err := m.chain.check(step); !errors.Is(err, ErrInvalid) {
		t.Errorf("a step that lists it: %v", err)
	}
	contribution.Height, contribution.Prev, contribution.Members = m.chain.height()+1, m.chain.tipHash(), m.chain.electorate()
	if err := m.chain.check(contribution); !errors.Is(err, ErrInvalid) {
		t.Errorf("a step with what it gave before: %v", err)
	}
	if err := m.chain.check(stepRecord(m, "AB")); err != nil {
		t.Errorf("a step without it: %v", err)
	}
	back := accessRecord(m, slot.Root{}, signedBy(m, slot.Readmit, "D", "AB"))
	if err := m.checkRecord(back); err != nil {
		t.Errorf("readmitted: %v", err)
	}
	replayed := back
	replayed.Decisions = []slot.Decision{{Action: slot.Readmit, Peer: labID("D"), Turn: 0, Orders: back.Decisions[0].Orders}}
	if err := m.checkRecord(replayed); !errors.Is(err, ErrInvalid) {
		t.Errorf("by orders of another turn: %v", err)
	}
	m.chain.push(Commit{Record: back})
	again := removal
	again.Height, again.Prev, again.Members, again.Key = m.chain.height()+1, m.chain.tipHash(), m.chain.electorate(), slot.Hash([]byte("third"))
	if err := m.checkRecord(again); !errors.Is(err, ErrInvalid) {
		t.Errorf("removed again by the same orders: %v", err)
	}
	if err := m.checkRecord(accessRecord(m, key, signedBy(m, slot.Rotate, "", "AB"))); !errors.Is(err, ErrInvalid) {
		t.Errorf("a secret of before: %v", err)
	}
	if err := m.checkRecord(accessRecord(m, slot.Hash([]byte("third")), signedBy(m, slot.Rotate, "", "AB"))); err != nil {
		t.Errorf("a rotation: %v", err)
	}
	if s := m.Standing(labID("D")); !s.Ever || s.Removed || s.Turn != 2 {
		t.Errorf("standing after both: %+v", s)
	}
}

// Orders are of members, now, and few.
func TestOrdersAreBounded(t *testing.T) {
	l := labOf(t, "ABC")
	a, b := l.peer("A"), l.peer("B")
	say := func(from *labPeer, o slot.Order) error {
		return a.m.Step(l.now, Message{From: from.id, Incarnation: from.inc, Body: Order{o}})
	}
	h := a.m.chain.height()
	for i := range slot.MaxDecisions {
		if err := say(b, slot.Order{Action: slot.Remove, Peer: labID(fmt.Sprint(i)), From: h}); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		from *labPeer
		o    slot.Order
		want error
	}{
		"one too many":          {b, slot.Order{Action: slot.Remove, Peer: labID("x"), From: h}, ErrInvalid},
		"about the far future":  {a, slot.Order{Action: slot.Remove, Peer: labID("x"), From: h + slot.OrderSpan + 1}, ErrInvalid},
		"a secret for all":      {a, slot.Order{Action: slot.Rotate, From: h}, ErrInvalid},
		"for another turn":      {a, slot.Order{Action: slot.Remove, Peer: labID("x"), Turn: 1, From: h}, ErrStale},
		"older than the newest": {b, slot.Order{Action: slot.Remove, Peer: labID("1"), From: h - 1}, ErrStale},
		"of a stranger":         {&labPeer{id: labID("Z"), inc: 1}, slot.Order{Action: slot.Remove, Peer: labID("x"), From: h}, ErrSender},
	} {
		if err := say(c.from, c.o); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if o := a.m.View().Orders; len(o) != slot.MaxDecisions || o[0].Enough {
		t.Errorf("%d orders are known", len(o))
	}
}

// An order that stands is signed anew before it gets too old; one that is too old is no order any more.
func TestOldOrders(t *testing.T) {
	l := labOf(t, "ABC")
	a := l.peer("A")
	a.report(ReportOrders{[]slot.Order{{Action: slot.Remove, Peer: labID("C")}}})
	first := a.m.orders.sent[labID("C")]
	grow := func(n int) {
		for range n {
			a.m.chain.push(Commit{Record: accessRecord(a.m, slot.Root{})})
		}
		a.m.openDecree()
		a.m.Ready()
	}
	grow(slot.OrderSpan / 2)
	a.m.sendOrders()
	a.flush()
	if second := a.m.orders.sent[labID("C")]; second.From != a.m.chain.height() || first.From == second.From {
		t.Errorf("signed at %d, and at %d again", first.From, second.From)
	}
	grow(slot.OrderSpan / 2)
	if len(a.m.View().Orders) != 1 {
		t.Error("an order that counts is forgotten")
	}
	grow(slot.OrderSpan)
	if len(a.m.View().Orders) != 0 {
		t.Error("an order that counts no more is held")
	}
}

// A leader cannot choose the secret that keeps it out, nor condemn anybody by a draft with orders that nobody gave.
func TestDraftsOfBadLeaders(t *testing.T) {
	l := labOf(t, "ABC")
	leader := labName(l.peer("A").m.open.leader(0).Peer)
	others := []string{"A", "B", "C"}
	others = slices.DeleteFunc(others, func(n string) bool { return n == leader })
	m, from := l.peer(others[0]).m, l.peer(leader)
	m.chain.rules.Private = true
	draft := func(d slot.Decision) error {
		body := slot.Draft{Ref: m.chain.next(), Revision: 1 << 20, Kind: slot.Access, Slot: m.chain.tip().Slot, Key: slot.Hash([]byte("k")), Decisions: []slot.Decision{d}}
		return m.Step(l.now, Message{From: from.id, Incarnation: from.inc, Body: Draft{body}})
	}
	if err := draft(signedBy(m, slot.Remove, leader, others[0]+others[1])); !errors.Is(err, ErrInvalid) {
		t.Errorf("a draft that removes its leader: %v", err)
	}
	forged := signedBy(m, slot.Remove, others[1], "AB")
	forged.Orders[0].Sig, forged.Orders[1].Sig = []byte("x"), []byte("y")
	if err := draft(forged); !errors.Is(err, ErrInvalid) || m.barred(labID(others[1])) {
		t.Errorf("a draft with orders that nobody gave: %v", err)
	}
	if err := draft(signedBy(m, slot.Remove, others[1], "AB")); err != nil || !m.barred(labID(others[1])) {
		t.Errorf("a sound draft: %v", err)
	}
}

// Whoever is to be removed cannot keep the others from it by outbidding each leader: nobody follows it any more.
func TestTheRemovedOutbidsNobody(t *testing.T) {
	rules := labRules()
	rules.StartPeers = 5
	l := newLab(t, rules, labTiming)
	for _, n := range "ABCDE" {
		l.add(string(n))
	}
	l.connect()
	if !l.run(20*time.Second, func() bool { return l.peer("A").m.View().AppliedSlot >= 2 }) {
		t.Fatal("no slot")
	}
	e := l.peer("E")
	var outbid func()
	outbid = func() {
		if d := e.m.open; e.m.elector() {
			b := d.seen + 1
			for ofMember(d.leader(b)) != e.m.presence.self {
				b++
			}
			e.send(Envelope{To: peersOf(e.m.chain.electorate()), Body: Beat{Ref: d.at(b), Revision: 1, Offers: 1}})
		}
		l.at(l.now+15*time.Millisecond, outbid)
	}
	for _, n := range "ABCD" {
		l.peer(string(n)).report(ReportOrders{Orders: []slot.Order{{Action: slot.Remove, Peer: e.id}}})
	}
	outbid()
	if !l.run(20*time.Second, func() bool { return l.peer("A").m.Standing(e.id).Removed }) {
		t.Errorf("it is not removed:\n%s", l.show())
	}
}

// Newcomers wait for the record of a removal: with them in a record before it, those who ordered it might be no quorum any more.
func TestNewcomersWaitForARemoval(t *testing.T) {
	l := labOf(t, "ABC")
	m := l.peer("A").m
	newcomer := Message{From: labID("N"), Incarnation: 1, Body: Join{}}
	_ = m.Step(m.now, newcomer)
	ready := func(*acquaintance) bool { return true }
	if next := m.nextMembers(nil, ready); labNames(peersOf(next)) != "ABCN" {
		t.Fatalf("the newcomer is not listed: %s", labNames(peersOf(next)))
	}
	m.absorb([]slot.Decision{signedBy(m, slot.Remove, "C", "AB")})
	if next := m.nextMembers(nil, ready); labNames(peersOf(next)) != "AB" {
		t.Errorf("next are %s", labNames(peersOf(next)))
	}
}
